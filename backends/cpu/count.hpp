// count.hpp - arithmetic of the sizes that plans and estimates are made of. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

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
// Of one element.
inline int64_t type_bytes(int32_t type) {
  switch (type) {
    case POLYCONV_F64: return 8;
    case POLYCONV_F32:
    case POLYCONV_S32: return 4;
    case POLYCONV_S8:
    case POLYCONV_U8: return 1;
    default: return 2;
  }
}

} // namespace polyconv::cpu
