// pixels.hpp - how the pixels of a tensor lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda {

// Whether pixels lie in order of N D H W, `row` elements from each to the next.
inline bool pixels_lie_apart(const polyconv_tensor &t, int64_t row) {
  for (const int axis : {4, 3, 2, 0}) {
    if (t.size[axis] > 1 && t.stride[axis] != row) return false;
    row *= t.size[axis];
  }
  return true;
}

} // namespace polyconv::cuda
