// few.hpp - what the kernels of few channels (banded, few_in, few_out) have alike on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cinttypes>
#include <cstdint>

#include "common/accepts.hpp"
#include "common/instance.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::few {

// Products of warpgroups are code of exactly 9.0.
inline bool is_hopper(int device) {
  return device_facts(device).capability == 90;
}
inline int element_bytes(const polyconv_tensor &t) {
  return t.type == POLYCONV_F32 ? 4 : 2;
}

// A layer whose elements 32 bits can count, as kernels want it.
struct Shape {
  int32_t relu;
  int32_t channels, filters, taps_h, taps_w, step_h, step_w, dilation_h, dilation_w, pad_h, pad_w;
  int32_t input_h, input_w, output_h, output_w;
  int32_t x_plane, x_row, x_column, y_filter, y_row, y_column; // strides in elements
  int64_t x_image, y_image;

  // Rows from the first tap to the last; columns.
  __host__ __device__ int64_t reach_h() const { return int64_t{taps_h - 1} * dilation_h + 1; }
  __host__ __device__ int64_t reach_w() const { return int64_t{taps_w - 1} * dilation_w + 1; }
};

// An axis of one element may have any stride: 0 where 32 bits do not hold it. All others fit.
inline int32_t stride_of(const polyconv_tensor &t, int axis) {
  return t.stride[axis] > INT32_MAX ? 0 : small(t.stride[axis]);
}

// The third axis of a layer: 1 tap, 1 output and no padding of an image.
struct Depth {
  int32_t taps, step, dilation, pad, input, output;
  int32_t x, y; // strides in elements

  int64_t reach() const { return int64_t{taps - 1} * dilation + 1; } // slices from the first tap to the last
};

inline Depth depth_of(const polyconv_layer &l) {
  return {small(l.weights.size[2]), small(l.stride[0]),      small(l.dilation[0]),  small(l.pad_begin[0]),
          small(l.input.size[2]),   small(l.output.size[2]), stride_of(l.input, 2), stride_of(l.result, 2)};
}

inline Shape shape_of(const polyconv_layer &l) {
  Shape s = {};
  s.relu = l.epilogue.activation == POLYCONV_ACT_RELU;
  s.channels = small(l.weights.size[1]), s.filters = small(l.weights.size[0]);
  s.taps_h = small(l.weights.size[3]), s.taps_w = small(l.weights.size[4]);
  s.step_h = small(l.stride[1]), s.step_w = small(l.stride[2]);
  s.dilation_h = small(l.dilation[1]), s.dilation_w = small(l.dilation[2]);
  s.pad_h = small(l.pad_begin[1]), s.pad_w = small(l.pad_begin[2]);
  s.input_h = small(l.input.size[3]), s.input_w = small(l.input.size[4]);
  s.output_h = small(l.output.size[3]), s.output_w = small(l.output.size[4]);
  s.x_image = l.input.stride[0], s.x_plane = stride_of(l.input, 1);
  s.x_row = stride_of(l.input, 3), s.x_column = stride_of(l.input, 4);
  s.y_image = l.result.stride[0], s.y_filter = stride_of(l.result, 1);
  s.y_row = stride_of(l.result, 3), s.y_column = stride_of(l.result, 4);
  return s;
}

// Pointers of one run. `exact` are the weights unpacked, dense as [filter][channel][row][column].
struct Pointers {
  const void *x;
  const uint4 *weights;
  const void *exact;
  const float *bias; // NULL where there is none
  void *y;
  int32_t *taken; // banded's sheets: how many bands blocks have come back for; NULL: each takes every n-th of n blocks
};

// The instances of a kernel.
template <class Variant>
struct List {
  const Variant *first;
  int count;
  const Variant *begin() const { return first; }
  const Variant *end() const { return first + count; }
};

// Whether such a layer is what they all take, of three dimensions only where `volumes` are taken; else rejects it in
// words.
inline bool takes_layer(const polyconv_layer &l, sdk::Offer &offer, bool volumes = false) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (!volumes && !takes_2d(l, offer)) return false;
  if (!takes_one_group(l, offer)) return false;
  if (!takes_zeros(has_zero_padding(l), offer)) return false;
  if (!bias_and_relu_at_most(l)) return offer.reject("finishes with a bias and a relu at most");
  if (!takes_no_pooling(l, offer)) return false;
  return true;
}

inline bool takes(const polyconv_request &request, sdk::Offer &offer, bool volumes = false) {
  return takes_layer(*request.layers[0], offer, volumes);
}

// Whether planes follow each other as rows do, so that both axes are one.
inline bool planes_are_rows(const polyconv_tensor &t) {
  return t.size[2] == 1 || t.stride[2] == t.stride[3] * t.size[3];
}

// A layer of volumes as one of images whose rows are those of all planes, where windows are one element and read what
// lies there; any other as it is.
inline polyconv_layer as_image(polyconv_layer l) {
  for (int axis = 0; axis < 2; ++axis)
    if (l.weights.size[2 + axis] != 1 || l.stride[axis] != 1 || l.pad_begin[axis] != 0 || l.pad_end[axis] != 0)
      return l;
  if (!planes_are_rows(l.input) || !planes_are_rows(l.result)) return l;
  for (polyconv_tensor *t : {&l.input, &l.output, &l.result}) t->size[3] *= t->size[2], t->size[2] = 1;
  return l;
}

// One layer of f16 or bf16.
inline bool takes_16_bits(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const int32_t type = request.layers[0]->input.type;
  return is_half(type) || offer.reject("takes f16 and bf16");
}
// The same before all that a kernel asks else.
template <bool (*Supports)(const polyconv_request &, int32_t, sdk::Offer &)>
bool supports_16_bits(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return takes_16_bits(request, offer) && Supports(request, config, offer);
}

} // namespace polyconv::cuda::few
