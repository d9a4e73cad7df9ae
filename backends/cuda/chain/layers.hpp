// layers.hpp - what every chain on the tensor cores asks of its layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cinttypes>
#include <cmath>

#include "common/accepts.hpp"
#include "plan.hpp"

namespace polyconv::cuda::halves {

inline int64_t up(int64_t v, int64_t to) {
  return ceil_div(v, to) * to;
}

// The activation as bounds.
inline float low_of(const polyconv_layer &l) {
  return l.epilogue.activation == POLYCONV_ACT_NONE ? -INFINITY : 0.0f;
}
inline float high_of(const polyconv_layer &l) {
  return l.epilogue.activation == POLYCONV_ACT_CLIPPED_RELU ? l.epilogue.activation_alpha : INFINITY;
}

// Direction, dimensions and what follows the sums, of any type; a residual and pooling are the caller's question.
inline bool takes_form(const polyconv_layer &l, int index, sdk::Offer &offer) {
  const polyconv_epilogue &e = l.epilogue;
  if (l.direction != POLYCONV_FORWARD) return offer.reject("layer %d: computes outputs, not gradients", index);
  if (l.result.type != l.input.type) return offer.reject("layer %d: stores the type that it reads", index);
  if (!is_2d(l)) return offer.reject("layer %d: takes images of one or two dimensions", index);
  if (l.dilation[1] != 1 || l.dilation[2] != 1)
    return offer.reject("layer %d: takes taps side by side, not %" PRId64 "x%" PRId64 " apart", index, l.dilation[1],
                        l.dilation[2]);
  if (!has_zero_padding(l)) return offer.reject("layer %d: pads with zeros only", index);
  if (l.save != POLYCONV_SAVE_NONE || e.has_scale)
    return offer.reject("layer %d: has no scale and saves nothing", index);
  if (e.has_bias && l.bias_type != POLYCONV_F32) return offer.reject("layer %d: takes a bias of f32", index);
  if (e.activation != POLYCONV_ACT_NONE && e.activation != POLYCONV_ACT_RELU &&
      e.activation != POLYCONV_ACT_CLIPPED_RELU)
    return offer.reject("layer %d: ends with relu, clipped relu or nothing", index);
  return true;
}
inline bool takes_layer(const polyconv_layer &l, int index, sdk::Offer &offer) {
  if (!is_half(l.input.type)) return offer.reject("layer %d: multiplies f16 and bf16", index);
  return takes_form(l, index, offer);
}

inline bool takes_no_residual(const polyconv_layer &l, int index, sdk::Offer &offer) {
  return l.epilogue.residual_from == POLYCONV_RESIDUAL_NONE || offer.reject("layer %d: adds no residual", index);
}
inline bool takes_no_pooling(const polyconv_layer &l, int index, sdk::Offer &offer) {
  return !sdk::has_pooling(l) || offer.reject("layer %d: does not pool", index);
}

// Taps and stride, one group.
inline bool takes_taps(const polyconv_layer &l, int rows, int columns, int step, int index, sdk::Offer &offer) {
  if (l.weights.size[3] != rows || l.weights.size[4] != columns)
    return offer.reject("layer %d: is to be %dx%d, not %" PRId64 "x%" PRId64, index, rows, columns, l.weights.size[3],
                        l.weights.size[4]);
  if (l.stride[1] != step || l.stride[2] != step)
    return offer.reject("layer %d: is to have stride %d, not %" PRId64 "x%" PRId64, index, step, l.stride[1],
                        l.stride[2]);
  return l.groups == 1 || offer.reject("layer %d: is to have 1 group, not %" PRId64, index, l.groups);
}

inline bool takes_channels(const polyconv_layer &l, int in, int out, int index, sdk::Offer &offer) {
  return (l.input.size[1] <= in && l.output.size[1] <= out) ||
         offer.reject("layer %d: takes %d channels to %d, not %" PRId64 " to %" PRId64, index, in, out, l.input.size[1],
                      l.output.size[1]);
}

// The chain's ends, dense in either layout.
inline bool takes_ends(const polyconv_request &request, sdk::Offer &offer) {
  const polyconv_tensor &input = request.layers[0]->input, &result = request.layers[request.count - 1]->result;
  if (!sdk::channels_first(input) && !sdk::channels_last(input)) return offer.reject("layer 0: takes a dense input");
  if (!sdk::channels_first(result) && !sdk::channels_last(result))
    return offer.reject("layer %d: gives a dense result", request.count - 1);
  return input.size[0] <= INT32_MAX / 2 || offer.reject("takes less than 2^30 images");
}

// Rejects what takes more shared memory than a block may have.
inline bool fits_shared(int64_t bytes, const polyconv_request &request, sdk::Offer &offer) {
  const int64_t most = chain::most_shared(request);
  return bytes <= most ||
         offer.reject("needs at least %" PRId64 " bytes of shared memory a block, %" PRId64 " may be used", bytes,
                      most);
}

} // namespace polyconv::cuda::halves
