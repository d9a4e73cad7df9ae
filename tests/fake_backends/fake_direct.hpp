// fake_direct.hpp - a convolution that is right and no more, for the fake backends: f32, forward, with bias and
// activation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/padding.hpp>
#include <polyconv/sdk/tensor.hpp>

namespace fake {

using namespace polyconv::sdk;

// Whether the fakes can compute this layer.
inline bool takes(const polyconv_layer &layer, Offer &offer) {
  const polyconv_epilogue &e = layer.epilogue;
  if (layer.direction != POLYCONV_FORWARD) return offer.reject("computes forward only");
  if (layer.input.type != POLYCONV_F32 || layer.result.type != POLYCONV_F32 || layer.weights.type != POLYCONV_F32) {
    return offer.reject("takes f32 only");
  }
  if (e.pool.kind != POLYCONV_POOL_NONE) {
    offer.rejects_pooling = 1;
    return offer.reject("does not pool");
  }
  if (e.has_scale || e.residual_from != POLYCONV_RESIDUAL_NONE || layer.save != POLYCONV_SAVE_NONE) {
    return offer.reject("takes bias and activation, and nothing else");
  }
  offer.estimate_us = 1 + flops(layer) * 1e-3; // one operation a nanosecond
  return true;
}

// One sum, and what happens to it. `weight` gives weight (k, c, d, r, s).
template <class Weight>
float output_at(const polyconv_layer &l, const float *input, const Weight &weight, const float *bias,
                const int64_t (&o)[5]) {
  const int64_t filters = l.output.size[kC] / l.groups, channels = l.weights.size[kC];
  const int64_t group = o[kC] / filters;
  float sum = 0;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t tap = 0; tap < taps(l); ++tap) {
      const int64_t size_r = l.weights.size[kH], size_s = l.weights.size[kW];
      const int64_t at_tap[3] = {tap / (size_r * size_s), tap / size_s % size_r, tap % size_s};
      int64_t i[3];
      bool outside = false;
      for (int axis = 0; axis < 3; ++axis) {
        i[axis] = padded_index(o[kD + axis] * l.stride[axis] - l.pad_begin[axis] + at_tap[axis] * l.dilation[axis],
                               l.input.size[kD + axis], l.pad_mode);
        outside = outside || i[axis] < 0;
      }
      const float x =
          outside ? static_cast<float>(l.pad_value) : input[at(l.input, o[kN], group * channels + c, i[0], i[1], i[2])];
      sum += x * weight(o[kC], c, at_tap[0], at_tap[1], at_tap[2]);
    }
  }
  if (l.epilogue.has_bias) sum += bias[o[kC]];
  return activate(sum, l.epilogue);
}

template <class Weight>
void convolve(const polyconv_layer &l, const float *input, const Weight &weight, const float *bias, float *output) {
  int64_t o[5];
  const int64_t(&size)[5] = l.output.size;
  for (o[kN] = 0; o[kN] < size[kN]; ++o[kN])
    for (o[kC] = 0; o[kC] < size[kC]; ++o[kC])
      for (o[kD] = 0; o[kD] < size[kD]; ++o[kD])
        for (o[kH] = 0; o[kH] < size[kH]; ++o[kH])
          for (o[kW] = 0; o[kW] < size[kW]; ++o[kW])
            output[at(l.result, o[0], o[1], o[2], o[3], o[4])] = output_at(l, input, weight, bias, o);
}

// Raw weights, read by stride and offset.
struct RawWeights {
  const polyconv_tensor &tensor;
  const float *data;
  float operator()(int64_t k, int64_t c, int64_t d, int64_t r, int64_t s) const {
    return data[at(tensor, k, c, d, r, s)];
  }
};

// Packed weights of the fakes: dense in K C D R S and negated, so that raw weights taken for packed ones, or the other
// way round, show at once.
inline void pack_negated(const polyconv_tensor &tensor, const float *raw, float *packed) {
  const RawWeights from{tensor, raw};
  const int64_t(&size)[5] = tensor.size;
  for (int64_t k = 0; k < size[0]; ++k)
    for (int64_t c = 0; c < size[1]; ++c)
      for (int64_t d = 0; d < size[2]; ++d)
        for (int64_t r = 0; r < size[3]; ++r)
          for (int64_t s = 0; s < size[4]; ++s) *packed++ = -from(k, c, d, r, s);
}

struct NegatedWeights {
  const polyconv_tensor &tensor;
  const float *data;
  float operator()(int64_t k, int64_t c, int64_t d, int64_t r, int64_t s) const {
    const int64_t(&size)[5] = tensor.size;
    return -data[(((k * size[1] + c) * size[2] + d) * size[3] + r) * size[4] + s];
  }
};

inline int64_t negated_bytes(const polyconv_tensor &tensor) {
  return elements(tensor) * static_cast<int64_t>(sizeof(float));
}

} // namespace fake
