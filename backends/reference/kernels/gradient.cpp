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
  const void *saved;

  double pre_activation(const Place &p) const { return sdk::load_as<double>(saved, l.saved.type, at(l.saved, p)); }

  PoolSpan span(int axis, int64_t i) const {
    return sdk::pool_span(l.epilogue.pool, axis, i, l.result.size[sdk::kD + axis]);
  }

  // The index inside the window of the maximum that pooled result `o` took.
  int64_t argmax(const Place &o) const {
    if (l.save == POLYCONV_SAVE_ARGMAX) return static_cast<const int32_t *>(saved)[at(l.saved, o)];
    const polyconv_pool &pool = l.epilogue.pool;
    const PoolSpan d = span(0, o.d), h = span(1, o.h), w = span(2, o.w);
    double best = 0;
    int64_t result = -1;
    for (int64_t z = d.begin; z < d.end; ++z)
      for (int64_t y = h.begin; y < h.end; ++y)
        for (int64_t x = w.begin; x < w.end; ++x) {
          const double v = sdk::activate(pre_activation({o.n, o.channel, z, y, x}), l.epilogue);
          if (result >= 0 && !sdk::pool_better(v, best)) continue;
          best = v;
          result = index(pool, z - d.begin + d.first, y - h.begin + h.first, x - w.begin + w.first);
        }
    return result;
  }

  // How much of what reaches pooled result `o` goes on to element `p` of its window.
  double part(const Place &o, const Place &p) const {
    const polyconv_pool &pool = l.epilogue.pool;
    const PoolSpan d = span(0, o.d), h = span(1, o.h), w = span(2, o.w);
    if (pool.kind == POLYCONV_POOL_AVERAGE) {
      const int64_t inside = (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
      const int64_t all = pool.window[0] * pool.window[1] * pool.window[2];
      return 1 / static_cast<double>(pool.count_include_pad ? all : inside);
    }
    const int64_t own = index(pool, p.d - d.begin + d.first, p.h - h.begin + h.first, p.w - w.begin + w.first);
    return argmax(o) == own ? 1 : 0;
  }

  static int64_t index(const polyconv_pool &pool, int64_t d, int64_t h, int64_t w) {
    return (d * pool.window[1] + h) * pool.window[2] + w;
  }
};

// What reaches element `p` of the activated values.
double before_pooling(const Windows &windows, const void *gradient, const Place &p) {
  const polyconv_layer &l = windows.l;
  const auto given = [&](const Place &o) { return sdk::load_as<double>(gradient, l.input.type, at(l.input, o)); };
  if (!sdk::has_pooling(l)) return given(p);
  const polyconv_pool &pool = l.epilogue.pool;
  const PoolReaders d = sdk::pool_readers(pool, 0, p.d, l.input.size[sdk::kD]);
  const PoolReaders h = sdk::pool_readers(pool, 1, p.h, l.input.size[sdk::kH]);
  const PoolReaders w = sdk::pool_readers(pool, 2, p.w, l.input.size[sdk::kW]);
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

class GradientInstance final : public sdk::Instance {
 public:
  explicit GradientInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), parallel_(sdk::make_parallel(*request.policy)) {}

  void run(const polyconv_arguments &a, void *) const override {
    const Windows windows{layer_, a.saved[0]};
    const polyconv_tensor &r = layer_.result;
    for_each_row(*parallel_, r, [&](Place place) {
      for (place.w = 0; place.w < r.size[4]; ++place.w) {
        double v = before_pooling(windows, a.input, place);
        if (layer_.epilogue.activation != POLYCONV_ACT_NONE)
          v *= sdk::activation_slope(windows.pre_activation(place), layer_.epilogue);
        sdk::store_as(a.output, r.type, at(r, place), v);
      }
    });
  }

 private:
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
const sdk::Kernel kernel_gradient = {"gradient", POLYCONV_KERNEL_GENERIC, configs, 1, supports, create};

} // namespace polyconv::reference
