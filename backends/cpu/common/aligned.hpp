// aligned.hpp - which memory begins on a vector or a cache line, as stores that pass the caches by must. Driver side
// only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>
#include <polyconv/sdk/bytes.hpp>

#include <initializer_list>

namespace polyconv::cpu {

inline bool aligned(const void *memory, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(memory) % static_cast<uintptr_t>(bytes) == 0;
}

// Whether a tensor's first element, and each that steps along `axes` lead to, is aligned where its memory is.
inline bool steps_aligned(const polyconv_tensor &t, std::initializer_list<int> axes, int64_t bytes) {
  const int64_t element = sdk::type_bytes(t.type);
  bool all = t.offset * element % bytes == 0;
  for (int axis : axes) all = all && (t.size[axis] == 1 || t.stride[axis] * element % bytes == 0);
  return all;
}

} // namespace polyconv::cpu
