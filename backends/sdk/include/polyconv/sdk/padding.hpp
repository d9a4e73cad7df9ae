// padding.hpp - the six padding modes as an index map: which element a coordinate outside the tensor reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#if defined(__CUDACC__)
#define POLYCONV_HOST_DEVICE __host__ __device__
#else
#define POLYCONV_HOST_DEVICE
#endif

namespace polyconv::sdk {

// The index in [0, size) that coordinate `i` reads, or -1 for the padding value (ZERO and CONSTANT). `i` may lie
// any distance outside: mirrored and periodic modes repeat. size >= 1.
POLYCONV_HOST_DEVICE inline int64_t padded_index(int64_t i, int64_t size, int32_t mode) {
  if (i >= 0 && i < size) return i;
  if (mode == POLYCONV_PAD_REPLICATE) return i < 0 ? 0 : size - 1;
  if (mode == POLYCONV_PAD_CIRCULAR) {
    const int64_t r = i % size;
    return r < 0 ? r + size : r;
  }
  if (mode == POLYCONV_PAD_SYMMETRIC || mode == POLYCONV_PAD_REFLECT) {
    const int64_t edge = mode == POLYCONV_PAD_REFLECT ? 1 : 0; // reflect does not repeat the edge
    const int64_t period = 2 * (size - edge);
    if (period == 0) return 0; // one element, mirrored in itself
    int64_t r = i % period;
    if (r < 0) r += period;
    return r < size ? r : period - r - (1 - edge);
  }
  return -1;
}

} // namespace polyconv::sdk
