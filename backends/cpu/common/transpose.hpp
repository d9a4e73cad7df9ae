// transpose.hpp - squares of vectors transposed in registers: as many vectors as a vector has lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// a0 b0 a1 b1 ..., the first half of it and the second.
template <class T>
POLYCONV_INLINE Vector<T> interleave_low(Vector<T> a, Vector<T> b) {
  if constexpr (kLanes<T> == 16)
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  else if constexpr (kLanes<T> == 8)
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  else if constexpr (kLanes<T> == 4)
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
  else
    return __builtin_shufflevector(a, b, 0, 2);
}
template <class T>
POLYCONV_INLINE Vector<T> interleave_high(Vector<T> a, Vector<T> b) {
  if constexpr (kLanes<T> == 16)
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  else if constexpr (kLanes<T> == 8)
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  else if constexpr (kLanes<T> == 4)
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
  else
    return __builtin_shufflevector(a, b, 1, 3);
}

// Elements 0, 2, 4, ... of a and b behind each other.
template <class T>
POLYCONV_INLINE Vector<T> even_lanes(Vector<T> a, Vector<T> b) {
  if constexpr (kLanes<T> == 16)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  else if constexpr (kLanes<T> == 8)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  else if constexpr (kLanes<T> == 4)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
  else
    return __builtin_shufflevector(a, b, 0, 2);
}

// Each round of interleaving the halves moves one bit of the row number into the column number and back; after as many
// rounds as a column number has bits, rows and columns have changed places.
template <class T>
POLYCONV_INLINE void transpose(Vector<T> (&rows)[kLanes<T>]) {
  constexpr int kL = kLanes<T>;
#pragma GCC unroll 4
  for (int round = 1; round < kL; round *= 2) {
    Vector<T> next[kL];
#pragma GCC unroll 8
    for (int i = 0; i < kL / 2; ++i) {
      next[2 * i] = interleave_low<T>(rows[i], rows[i + kL / 2]);
      next[2 * i + 1] = interleave_high<T>(rows[i], rows[i + kL / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kL; ++i) rows[i] = next[i];
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
