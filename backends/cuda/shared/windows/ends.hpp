// ends.hpp - how sums of the gradient of an input leave, as the host sees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"

namespace polyconv::cuda::shared {

// How many elements lie side by side wherever a thread begins: 4, 2 or 1. `column` of a row is where the first one
// does.
inline int32_t side_by_side(const polyconv_tensor &t, int64_t column) {
  for (const int32_t width : {4, 2}) {
    const auto in_steps = [&](int64_t v) { return v % width == 0; };
    if (t.stride[4] == 1 && in_steps(column) && in_steps(t.offset) && in_steps(t.stride[3]) && in_steps(t.stride[1]) &&
        in_steps(t.stride[0]))
      return width;
  }
  return 1;
}

// As many of them, of so many bytes each, as a pointer lets.
inline int32_t aligned_width(int32_t width, const void *pointer, int64_t bytes) {
  while (width > 1 && !aligned(pointer, width * bytes)) width /= 2;
  return width;
}

} // namespace polyconv::cuda::shared
