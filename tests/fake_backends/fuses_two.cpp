// fuses_two.cpp - a fake backend whose one kernel computes two 1x1 convolutions in one go, a pixel at a time; it takes
// nothing else. Between the layers it keeps one pixel, in the workspace.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include "fake_direct.hpp"

namespace {

using namespace fake;

bool is_pointwise(const polyconv_layer &l) {
  for (int axis = 0; axis < 3; ++axis) {
    if (l.weights.size[kD + axis] != 1 || l.stride[axis] != 1 || l.pad_begin[axis] != 0 || l.pad_end[axis] != 0) {
      return false;
    }
  }
  return l.groups == 1;
}

bool supports(const polyconv_request &request, int32_t, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 2) return offer.reject("fuses two layers, not %d", static_cast<int>(request.count));
  double estimate = 0;
  for (int i = 0; i < 2; ++i) {
    if (!is_pointwise(*request.layers[i])) return offer.reject("layer %d is no plain 1x1 convolution", i);
    if (!takes(*request.layers[i], offer)) return false;
    estimate += offer.estimate_us;
    offer.set_weights(i, POLYCONV_FORMAT_RAW, 0);
  }
  offer.estimate_us = estimate / 10; // one pass is all the charm
  offer.workspace_bytes = request.layers[0]->output.size[kC] * static_cast<int64_t>(sizeof(float));
  return true;
}

class Pair final : public Instance {
 public:
  Pair(const polyconv_layer &first, const polyconv_layer &second) : first_(first), second_(second) {}

  void run(const polyconv_arguments &a, void *) const override {
    float *pixel = static_cast<float *>(a.workspace);
    const polyconv_tensor &image = first_.input;
    for (int64_t n = 0; n < image.size[kN]; ++n)
      for (int64_t d = 0; d < image.size[kD]; ++d)
        for (int64_t h = 0; h < image.size[kH]; ++h)
          for (int64_t w = 0; w < image.size[kW]; ++w) {
            const float *in = static_cast<const float *>(a.input) + at(image, n, 0, d, h, w);
            float *out = static_cast<float *>(a.output) + at(second_.result, n, 0, d, h, w);
            multiply(first_, a, 0, in, image.stride[kC], pixel, 1);
            multiply(second_, a, 1, pixel, 1, out, second_.result.stride[kC]);
          }
  }

 private:
  static void multiply(const polyconv_layer &l, const polyconv_arguments &a, int index, const float *in,
                       int64_t in_stride, float *out, int64_t out_stride) {
    const RawWeights weight{l.weights, static_cast<const float *>(a.weights[index])};
    for (int64_t k = 0; k < l.output.size[kC]; ++k) {
      float sum = 0;
      for (int64_t c = 0; c < l.weights.size[kC]; ++c) sum += in[c * in_stride] * weight(k, c, 0, 0, 0);
      if (l.epilogue.has_bias) sum += static_cast<const float *>(a.bias[index])[k];
      out[k * out_stride] = activate(sum, l.epilogue);
    }
  }

  polyconv_layer first_, second_;
};

std::unique_ptr<Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<Pair>(*request.layers[0], *request.layers[1]);
}

const char *const kConfigs[] = {"pixel"};
const Kernel kPair = {"pointwise_pair", 0, kConfigs, 1, supports, create};

polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS;
}

} // namespace

POLYCONV_DEFINE_BACKEND({FAKE_NAME, "1", "cpu", {&kPair}, probe})
