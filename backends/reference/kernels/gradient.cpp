// gradient.cpp - the gradient of activation and pooling, one element of the result at a time: what reaches it from
// every window that holds it, times the slope of the activation. Floor: one read of gradient and saved values, one
// write; this searches a window again for each of its elements.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/pooling.hpp>
#include <polyconv/sdk/tensor.hpp>

#include "kernels/for_each.hpp"

namespace polyconv::reference {
namespace {

using sdk::PoolReaders;
using sdk::PoolSpan;

// The windows of one layer, and what came out of them in the forward run.
struct Windows {
  const polyconv_layer &l;
  const polyconv_arguments &a;
  const void *const saved = a.saved[0];

  double alpha(int64_t channel) const { return sdk::alpha_of<double>(l, a.slope[0], channel); }
  double pre_activation(const Place &p) const { return sdk::load_as<double>(saved, l.saved.type, at(l.saved, p)); }

  int64_t size(int axis) const { return l.result.size[sdk::kD + axis]; }
  PoolSpan span(int axis, int64_t i) const { return sdk::pool_span(l, axis, i, size(axis)); }

  // The index inside the window of the maximum that pooled result `o` took.
  int64_t argmax(const Place &o) const {
    if (l.save == POLYCONV_SAVE_ARGMAX) return static_cast<const int32_t *>(saved)[at(l.saved, o)];
    const PoolSpan d = span(0, o.d), h = span(1, o.h), w = span(2, o.w);
    double best = 0;
    int64_t result = -1;
    for (int64_t z = d.begin, i = d.first; z < d.end; z += d.step, ++i)
      for (int64_t y = h.begin, j = h.first; y < h.end; y += h.step, ++j)
        for (int64_t x = w.begin, k = w.first; x < w.end; x += w.step, ++k) {
          const double v = sdk::activate(pre_activation({o.n, o.channel, z, y, x}), l.epilogue, alpha(o.channel));
          if (result >= 0 && !sdk::pool_better(v, best)) continue;
          best = v;
          result = index(i, j, k);
        }
    return result;
  }

  // How much of what reaches pooled result `o`, whose window reaches over element `p`, goes on to that.
  double part(const Place &o, const Place &p) const {
    const int64_t d = sdk::pool_place(l, 0, o.d, p.d), h = sdk::pool_place(l, 1, o.h, p.h);
    const int64_t w = sdk::pool_place(l, 2, o.w, p.w);
    if (d < 0 || h < 0 || w < 0) return 0; // between the elements of a dilated window
    if (l.epilogue.pool.kind == POLYCONV_POOL_MAX) return argmax(o) == index(d, h, w) ? 1 : 0;
    const int64_t divisor = sdk::pool_divisor(l, 0, o.d, size(0)) * sdk::pool_divisor(l, 1, o.h, size(1)) *
                            sdk::pool_divisor(l, 2, o.w, size(2));
    return 1 / static_cast<double>(divisor);
  }

  int64_t index(int64_t d, int64_t h, int64_t w) const {
    const polyconv_pool &pool = l.epilogue.pool;
    return (d * pool.window[1] + h) * pool.window[2] + w;
  }
};

// What reaches element `p` of the activated values.
double before_pooling(const Windows &windows, const Place &p) {
  const polyconv_layer &l = windows.l;
  const auto given = [&](const Place &o) {
    return sdk::load_as<double>(windows.a.input, l.input.type, at(l.input, o));
  };
  if (!sdk::has_pooling(l)) return given(p);
  const PoolReaders d = sdk::pool_readers(l, 0, p.d, l.input.size[sdk::kD]);
  const PoolReaders h = sdk::pool_readers(l, 1, p.h, l.input.size[sdk::kH]);
  const PoolReaders w = sdk::pool_readers(l, 2, p.w, l.input.size[sdk::kW]);
  double sum = 0;
  for (int64_t z = d.begin; z < d.end; ++z)
    for (int64_t y = h.begin; y < h.end; ++y)
      for (int64_t x = w.begin; x < w.end; ++x) {
        const Place o{p.n, p.channel, z, y, x};
        const double part = windows.part(o, p);
        if (part != 0) sum += part * given(o);
      }
  return sum;
}

// What reaches element `p` of the values before activation.
double before_activation(const Windows &windows, const Place &p) {
  const double v = before_pooling(windows, p);
  const polyconv_epilogue &e = windows.l.epilogue;
  if (e.activation == POLYCONV_ACT_NONE) return v;
  return v * sdk::activation_slope(windows.pre_activation(p), e, windows.alpha(p.channel));
}

class GradientInstance final : public sdk::Instance {
 public:
  explicit GradientInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), parallel_(sdk::make_parallel(*request.policy)) {}

  void run(const polyconv_arguments &a, void *) const override {
    const Windows windows{layer_, a};
    const polyconv_tensor &r = layer_.result, &residual = layer_.residual;
    const polyconv_epilogue &e = layer_.epilogue;
    void *const residual_gradient = e.residual_from != POLYCONV_RESIDUAL_NONE ? a.residual_gradient[0] : nullptr;
    for_each_row(*parallel_, r, [&](Place place) {
      const double scale =
          e.has_scale ? sdk::load_as<double>(a.scale[0], sdk::scale_type(layer_.sum_type), place.channel) : 1;
      for (place.w = 0; place.w < r.size[4]; ++place.w) {
        const double v = before_activation(windows, place);
        if (residual_gradient != nullptr)
          sdk::store_as(residual_gradient, residual.type, at(residual, place),
                        v * static_cast<double>(e.residual_scale));
        sdk::store_as(a.output, r.type, at(r, place), v * scale);
      }
    });
    if (e.has_bias) sum_bias(windows);
  }

 private:
  // One task a channel, in order of N, D, H, W.
  void sum_bias(const Windows &windows) const {
    const polyconv_tensor &r = layer_.result;
    for_each(*parallel_, r.size[1], [&](int64_t channel) {
      double sum = 0;
      Place p{};
      p.channel = channel;
      for (p.n = 0; p.n < r.size[0]; ++p.n)
        for (p.d = 0; p.d < r.size[2]; ++p.d)
          for (p.h = 0; p.h < r.size[3]; ++p.h)
            for (p.w = 0; p.w < r.size[4]; ++p.w) sum += before_activation(windows, p);
      sdk::store_as(windows.a.bias[0], layer_.bias_type, channel, sum);
    });
  }

  const polyconv_layer layer_;
  const std::unique_ptr<sdk::Parallel> parallel_;
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_GRADIENT) return offer.reject("only goes back through activation and pooling");
  const polyconv_layer &l = *request.layers[0];
  const double reads = static_cast<double>(sdk::elements(l.result)) * (sdk::has_pooling(l) ? 20 : 2);
  offer.estimate_us = 20 + reads * 3e-3 / request.policy->threads;
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<GradientInstance>(request);
}

const char *const configs[] = {"plain"};

} // namespace

extern const sdk::Kernel kernel_gradient;
const sdk::Kernel kernel_gradient = {"gradient", POLYCONV_KERNEL_GENERIC, configs, 1, supports,
                                     create,     POLYCONV_TRAITS_ALL};

} // namespace polyconv::reference
