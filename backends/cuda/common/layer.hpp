// layer.hpp - what a layer is: questions about padding, tensors and types that many kernels ask. Host code alone, so
// that what is made of a layer can be tested without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

namespace polyconv::cuda {

// Whether the input is never read beside the image.
inline bool pads_nothing(const polyconv_layer &l) {
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t end = (l.output.size[2 + axis] - 1) * l.stride[axis] - l.pad_begin[axis] +
                        (l.weights.size[2 + axis] - 1) * l.dilation[axis];
    if (l.pad_begin[axis] > 0 || end >= l.input.size[2 + axis]) return false;
  }
  return true;
}

// Whether there is no padding, read or not.
inline bool has_no_padding(const polyconv_layer &l) {
  for (int axis = 0; axis < 3; ++axis)
    if (l.pad_begin[axis] > 0 || l.pad_end[axis] > 0) return false;
  return true;
}

// Whether padding, if there is any, is zeros; whether nothing but zeros is ever read beside the image.
inline bool has_zero_padding(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_ZERO || (l.pad_mode == POLYCONV_PAD_CONSTANT && l.pad_value == 0);
}
inline bool pads_zeros(const polyconv_layer &l) {
  return has_zero_padding(l) || pads_nothing(l);
}

// Whether the channels of a pixel lie side by side; columns of a row.
inline bool has_neighbouring_channels(const polyconv_tensor &t) {
  return t.size[1] == 1 || t.stride[1] == 1;
}
inline bool has_neighbouring_columns(const polyconv_tensor &t) {
  return t.size[4] <= 1 || t.stride[4] == 1;
}

// Types of elements: 16 bits; those and f32.
inline bool is_half(int32_t type) {
  return type == POLYCONV_F16 || type == POLYCONV_BF16;
}
inline bool is_single_or_half(int32_t type) {
  return type == POLYCONV_F32 || is_half(type);
}

} // namespace polyconv::cuda
