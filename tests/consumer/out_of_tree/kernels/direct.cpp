// direct.cpp - forward convolution in f32, one output after another: seven loops and the epilogue.
// Floor: 2 operations a tap; every tap is loaded again, so it stays far from the machine's rate.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/padding.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

namespace outside {
namespace {

using namespace polyconv::sdk;

// What every output needs of the run's pointers.
struct Pointers {
  const float *input, *weights, *scale, *bias, *residual;
  float *result;
};

// The sum behind one output. Strides and offset of the weights already hold layouts and flips.
float sum_at(const polyconv_layer &l, const Pointers &p, int64_t n, int64_t k, const int64_t (&o)[3]) {
  const int64_t first_channel = k / (l.weights.size[kK] / l.groups) * l.weights.size[kC];
  float sum = 0;
  for (int64_t c = 0; c < l.weights.size[kC]; ++c)
    for (int64_t d = 0; d < l.weights.size[kD]; ++d)
      for (int64_t r = 0; r < l.weights.size[kH]; ++r)
        for (int64_t s = 0; s < l.weights.size[kW]; ++s) {
          const int64_t tap[3] = {d, r, s};
          int64_t i[3];
          bool inside = true;
          for (int axis = 0; axis < 3; ++axis) {
            const int64_t coordinate = o[axis] * l.stride[axis] - l.pad_begin[axis] + tap[axis] * l.dilation[axis];
            i[axis] = padded_index(coordinate, l.input.size[kD + axis], l.pad_mode);
            inside = inside && i[axis] >= 0;
          }
          const float x =
              inside ? p.input[at(l.input, n, first_channel + c, i[0], i[1], i[2])] : static_cast<float>(l.pad_value);
          sum += x * p.weights[at(l.weights, k, c, d, r, s)];
        }
  return sum;
}

// One plane of outputs: batch element n, channel k.
void plane(const polyconv_layer &l, const Pointers &p, int64_t n, int64_t k) {
  const polyconv_epilogue &e = l.epilogue;
  for (int64_t d = 0; d < l.output.size[kD]; ++d)
    for (int64_t h = 0; h < l.output.size[kH]; ++h)
      for (int64_t w = 0; w < l.output.size[kW]; ++w) {
        float v = sum_at(l, p, n, k, {d, h, w});
        if (e.has_scale) v *= p.scale[k];
        if (e.has_bias) v += p.bias[k];
        if (e.residual_from == POLYCONV_RESIDUAL_BUFFER)
          v += e.residual_scale * p.residual[at(l.residual, n, k, d, h, w)];
        p.result[at(l.result, n, k, d, h, w)] = activate(v, e);
      }
}

bool supports(const polyconv_request &request, int32_t, Offer &offer) {
  if (!convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.input.type != POLYCONV_F32 || l.result.type != POLYCONV_F32) return offer.reject("takes f32 only");
  if (l.save != POLYCONV_SAVE_NONE) return offer.reject("saves nothing");
  if (has_pooling(l)) {
    offer.rejects_pooling = 1; // the plan may pool in a step of its own
    return offer.reject("does not pool");
  }
  offer.estimate_us = 1 + flops(l) * 1e-3 / request.policy->threads; // about 1 Gflop/s a thread
  return true;
}

class DirectInstance final : public Instance {
 public:
  explicit DirectInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), parallel_(make_parallel(*request.policy)) {}

  void run(const polyconv_arguments &a, void *) const override {
    const Pointers p = {static_cast<const float *>(a.input),       static_cast<const float *>(a.weights[0]),
                        static_cast<const float *>(a.scale[0]),    static_cast<const float *>(a.bias[0]),
                        static_cast<const float *>(a.residual[0]), static_cast<float *>(a.output)};
    const int64_t channels = layer_.output.size[kC], planes = layer_.output.size[kN] * channels;
    const int64_t tasks = planes < parallel_->threads() ? planes : parallel_->threads();
    (*parallel_)(tasks, [&](int64_t task) {
      const Share mine = share(planes, tasks, task);
      for (int64_t i = mine.begin; i < mine.end; ++i) plane(layer_, p, i / channels, i % channels);
    });
  }

 private:
  const polyconv_layer layer_;
  const std::unique_ptr<Parallel> parallel_;
};

std::unique_ptr<Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<DirectInstance>(request);
}

const char *const configs[] = {"plain"};

} // namespace

extern const Kernel kernel_direct;
const Kernel kernel_direct = {"direct", 0, configs, 1, supports, create};

} // namespace outside
