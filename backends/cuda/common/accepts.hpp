// accepts.hpp - what kernels ask of a layer before they take it, each question once.
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

// Whether nothing but zeros is ever read beside the image.
inline bool pads_zeros(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_ZERO || (l.pad_mode == POLYCONV_PAD_CONSTANT && l.pad_value == 0) ||
         pads_nothing(l);
}

// Whether the channels of a pixel lie side by side.
inline bool has_neighbouring_channels(const polyconv_tensor &t) {
  return t.size[1] == 1 || t.stride[1] == 1;
}

} // namespace polyconv::cuda
