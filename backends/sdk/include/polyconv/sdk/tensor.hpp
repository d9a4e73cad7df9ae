// tensor.hpp - questions that kernels ask about a polyconv_tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

namespace polyconv::sdk {

inline constexpr int kN = 0, kC = 1, kD = 2, kH = 3, kW = 4; // axes of data; weights use kK, kC, then D R S
inline constexpr int kK = 0;

inline int64_t elements(const polyconv_tensor &t) {
  return t.size[0] * t.size[1] * t.size[2] * t.size[3] * t.size[4];
}

// Elements of one image and channel.
inline int64_t spatial(const polyconv_tensor &t) {
  return t.size[kD] * t.size[kH] * t.size[kW];
}

inline int64_t taps(const polyconv_layer &l) {
  return spatial(l.weights);
}

// Element offset of (n, c, d, h, w) from the tensor's pointer.
inline int64_t at(const polyconv_tensor &t, int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
  return t.offset + n * t.stride[0] + c * t.stride[1] + d * t.stride[2] + h * t.stride[3] + w * t.stride[4];
}

namespace detail {
inline bool dense_in_order(const polyconv_tensor &t, const int (&inner_to_outer)[5]) {
  if (t.offset != 0) return false;
  int64_t expected = 1;
  for (int axis : inner_to_outer) {
    if (t.size[axis] != 1 && t.stride[axis] != expected) return false; // a size of 1 has no stride to speak of
    expected *= t.size[axis];
  }
  return true;
}
} // namespace detail

// Dense as N C D H W, or as N D H W C; both where C is 1 or the image one pixel.
inline bool channels_first(const polyconv_tensor &t) {
  return detail::dense_in_order(t, {4, 3, 2, 1, 0});
}
inline bool channels_last(const polyconv_tensor &t) {
  return detail::dense_in_order(t, {1, 4, 3, 2, 0});
}

inline bool is_float(int32_t type) {
  return type == POLYCONV_F64 || type == POLYCONV_F32 || type == POLYCONV_F16 || type == POLYCONV_BF16;
}
inline bool is_quantised(const polyconv_layer &l) {
  return l.sum_type == POLYCONV_S32;
}

// The tensor a direction writes, before pooling: output, input or weights.
inline const polyconv_tensor &written(const polyconv_layer &l) {
  return l.direction == POLYCONV_FORWARD ? l.output : l.direction == POLYCONV_BACKWARD_DATA ? l.input : l.weights;
}

inline bool has_pooling(const polyconv_layer &l) {
  return l.epilogue.pool.kind != POLYCONV_POOL_NONE;
}

// Multiply-adds of a layer, counted as two operations.
inline double flops(const polyconv_layer &l) {
  return 2.0 * static_cast<double>(elements(l.output)) * static_cast<double>(l.weights.size[kC]) *
         static_cast<double>(taps(l));
}

} // namespace polyconv::sdk
