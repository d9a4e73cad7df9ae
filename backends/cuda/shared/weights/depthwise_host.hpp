// depthwise_host.hpp - what the hosts of gradients of depthwise weights in f32 sums share: what they take, and a layer
// as their kernels read it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cinttypes>

#include "common/host.hpp"
#include "common/implicit.hpp"
#include "weights/last.hpp"

namespace polyconv::cuda::shared {

inline constexpr int64_t kLongestSum = int64_t{1} << 17; // pixels: so many roundings stay below those of the result

// Whether a layer has this stride along an axis, and no dilation. Where one output is all there is along an axis, any
// stride is as good; and so is any dilation of one tap.
inline bool steps_by(const polyconv_layer &l, int axis, int64_t stride) {
  return (l.stride[axis] == stride || l.output.size[2 + axis] == 1) &&
         (l.dilation[axis] == 1 || l.weights.size[2 + axis] == 1);
}

// What the layer says, without what a kernel's cut says.
inline LastSums sums_of(const polyconv_layer &l) {
  LastSums p = {View<int64_t>(l.weights)};
  p.result_type = l.result.type;
  p.x_image = l.input.stride[0], p.dy_image = l.output.stride[0];
  for (int axis = 0; axis < 3; ++axis) {
    p.x_stride[axis] = small(l.input.stride[2 + axis]), p.dy_stride[axis] = small(l.output.stride[2 + axis]);
    p.in[axis] = small(l.input.size[2 + axis]), p.out[axis] = small(l.output.size[2 + axis]);
    p.taps[axis] = small(l.weights.size[2 + axis]), p.stride[axis] = small(l.stride[axis]);
    p.dilation[axis] = small(l.dilation[axis]), p.pad[axis] = small(l.pad_begin[axis]);
  }
  p.channels = small(l.input.size[1]);
  return p;
}

// With the pointers of a run, whose workspace begins with the pieces.
inline void set_pointers(const polyconv_layer &l, const polyconv_arguments &a, LastSums *p) {
  p->x = begin_of(l.input, a.input);
  p->dy = begin_of(l.output, a.output);
  p->result = a.weights[0];
  p->pieces = static_cast<float *>(a.workspace);
}

inline int64_t pieces_bytes(const LastSums &p) {
  return aligned_bytes(int64_t{p.splits} * p.all_taps() * p.row_channels() * 4);
}

// Of any layout.
inline bool takes_depthwise_gradient(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (type != l.output.type || !is_single_or_half(type) || l.sum_type != POLYCONV_F32)
    return offer.reject("takes f32, f16 and bf16, the same for input and output, summed in f32");
  if (l.result.type != type && l.result.type != POLYCONV_F32)
    return offer.reject("stores the gradient as f32, or in the type of the input");
  if (l.weights.size[1] != 1 || l.input.size[1] != l.output.size[1])
    return offer.reject("takes one filter a channel, not %" PRId64 " filters of %" PRId64 " channels for %" PRId64,
                        l.output.size[1], l.weights.size[1], l.input.size[1]);
  if (!takes_no_empty({&l.input, &l.output}, offer)) return false;
  if (!takes_zeros(pads_zeros(l), offer)) return false;
  if (sdk::taps(l) > 1 << 16) return offer.reject("takes windows of up to 2^16 taps");
  if (!fits_implicit_both(l, l.output, offer)) return false;
  const double rows = real(l.output.size[0]) * real(sdk::spatial(l.output)), weights = real(sdk::elements(l.weights));
  return (rows < 1 << 30 && weights * 64 < 1 << 30) || offer.reject("takes less than 2^30 pixels and 2^24 weights");
}

} // namespace polyconv::cuda::shared
