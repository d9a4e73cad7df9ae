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

using sdk::aligned_bytes;

} // namespace polyconv::cuda
