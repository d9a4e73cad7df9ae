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
// any distance outside: mirrored and periodic modes repeat. size >= 1. Index is int64_t, or int32_t where 2 * size and
// i fit, as 64-bit divisions are slow on GPUs.
template <class Index>
POLYCONV_HOST_DEVICE inline Index padded_index_in(Index i, Index size, int32_t mode) {
  if (i >= 0 && i < size) return i;
  if (mode == POLYCONV_PAD_REPLICATE) return i < 0 ? 0 : size - 1;
  if (mode == POLYCONV_PAD_CIRCULAR) {
    const Index r = i % size;
    return r < 0 ? r + size : r;
  }
  if (mode == POLYCONV_PAD_SYMMETRIC || mode == POLYCONV_PAD_REFLECT) {
    const Index edge = mode == POLYCONV_PAD_REFLECT ? 1 : 0; // reflect does not repeat the edge
    const Index period = 2 * (size - edge);
    if (period == 0) return 0; // one element, mirrored in itself
    Index r = i % period;
    if (r < 0) r += period;
    return r < size ? r : period - r - (1 - edge);
  }
  return -1;
}

POLYCONV_HOST_DEVICE inline int64_t padded_index(int64_t i, int64_t size, int32_t mode) {
  return padded_index_in<int64_t>(i, size, mode);
}

} // namespace polyconv::sdk
