// transpose.hpp - squares of vectors transposed in registers: as many vectors as a vector has lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

#include <utility>

namespace polyconv::cpu::POLYCONV_ISA {

// Lanes First, First + 1, ... of a and b in turn: a0 b0 a1 b1 ...
template <class T, int First, int... kLane>
POLYCONV_INLINE Vector<T> in_turn(Vector<T> a, Vector<T> b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (First + kLane / 2 + kLane % 2 * kLanes<T>)...);
}
template <class T>
POLYCONV_INLINE Vector<T> interleave_low(Vector<T> a, Vector<T> b) {
  return in_turn<T, 0>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}
template <class T>
POLYCONV_INLINE Vector<T> interleave_high(Vector<T> a, Vector<T> b) {
  return in_turn<T, kLanes<T> / 2>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}

// Lanes 0, 2, 4, ... of a and b behind each other.
template <class T, int... kLane>
POLYCONV_INLINE Vector<T> every_other(Vector<T> a, Vector<T> b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane)...);
}
template <class T>
POLYCONV_INLINE Vector<T> even_lanes(Vector<T> a, Vector<T> b) {
  return every_other<T>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
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
