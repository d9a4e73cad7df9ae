// formula.hpp - for libraries that compute output sizes anew: a layer's own strides are 1 where no step is taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

namespace polyconv::sdk {

// The stride with which floor((input + pads - dilation (taps - 1) - 1) / stride) + 1 is the output's size: the layer's,
// and where there is one output, the least that leaves no room for a second.
inline int64_t formula_stride(const polyconv_layer &l, int axis) {
  if (l.output.size[kD + axis] != 1) return l.stride[axis];
  return l.input.size[kD + axis] + l.pad_begin[axis] + l.pad_end[axis] -
         l.dilation[axis] * (l.weights.size[kD + axis] - 1);
}

} // namespace polyconv::sdk
