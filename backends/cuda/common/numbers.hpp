// numbers.hpp - the arithmetic that every plan of a launch needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

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

// What a piece of a workspace takes, so that the next one begins aligned.
constexpr int64_t aligned_bytes(int64_t bytes) {
  return ceil_div(bytes, POLYCONV_ALIGNMENT) * POLYCONV_ALIGNMENT;
}

} // namespace polyconv::cuda
