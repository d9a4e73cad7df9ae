// numbers.hpp - the arithmetic that every plan of a launch needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/bytes.hpp>

#include <cstdint>

namespace polyconv::cuda {

// Rounded up.
constexpr int64_t ceil_div(int64_t count, int64_t of) {
  return (count + of - 1) / of;
}

// Counts in estimates: their products do not overflow.
constexpr double real(int64_t v) {
  return static_cast<double>(v);
}

// Sizes and strides that a kernel counts in 32 bits: its supports has seen that they fit.
constexpr int32_t small(int64_t v) {
  return static_cast<int32_t>(v);
}

// Whether a vector of so many bytes may be read or written there.
inline bool aligned(const void *pointer, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
}

using sdk::aligned_bytes;

} // namespace polyconv::cuda
