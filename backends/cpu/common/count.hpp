// count.hpp - arithmetic of the sizes that plans and estimates are made of. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/bytes.hpp>

#include <cstdint>

namespace polyconv::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}
inline double real(int64_t value) {
  return static_cast<double>(value);
}
using sdk::type_bytes;

// The elements of the arithmetic: 8 bytes in the f64 row, else 4.
inline int64_t sum_bytes(int32_t sum_type) {
  return sum_type == POLYCONV_F64 ? 8 : 4;
}

} // namespace polyconv::cpu
