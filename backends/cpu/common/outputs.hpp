// outputs.hpp - which outputs a tap meets inside the input, for kernels that leave zero padding out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"

namespace polyconv::cpu {

// Of one axis: [first, last).
struct AxisOutputs {
  int64_t first, last;
};

} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/common/count.hpp"

#include <algorithm>

namespace polyconv::cpu {

// Outputs for which tap `tap` reads inside the input.
inline AxisOutputs outputs_inside(const Axis &axis, int64_t tap) {
  const int64_t shift = axis.before - tap * axis.dilation; // input coordinate = output coordinate * step - shift
  const int64_t first = shift > 0 ? ceil_div(shift, axis.step) : 0, end = axis.in + shift;
  const int64_t last = end > 0 ? ceil_div(end, axis.step) : 0;
  return {std::min(first, axis.out), std::min(last, axis.out)};
}

} // namespace polyconv::cpu
#endif
