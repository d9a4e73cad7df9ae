// pixel_matrix.hpp - tensors as matrices, pixels by channels: channels side by side, pixels in order of N D H W and all
// equally far apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <cstdint>

#include "common/pixels.hpp"

namespace polyconv::cuda {

// Elements from one pixel to the next, where all are equally far apart.
inline int64_t row_of(const polyconv_tensor &t) {
  for (const int axis : {4, 3, 2, 0})
    if (t.size[axis] > 1) return t.stride[axis];
  return (t.size[1] + 7) / 8 * 8;
}

// Whether a tensor is such a matrix of the type, of which 16 bytes can be moved at once were its pointer aligned. So
// channels are whole vectors too: of what is 16 bytes the TMA writes all, where a matrix ends within them.
inline bool is_matrix(const polyconv_tensor &t, int32_t type) {
  const int64_t vector = type == POLYCONV_F32 ? 4 : 8;
  if (t.type != type || t.stride[1] != 1 || t.offset % vector != 0 || row_of(t) % vector != 0) return false;
  return t.size[1] % vector == 0 && pixels_lie_apart(t, row_of(t));
}

} // namespace polyconv::cuda
