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

#if defined(__AVX2__) && !defined(__AVX512F__)
// Eight rows of eight: each instruction moves within the halves of its registers, but for the last eight. The rounds
// below would be twice as many instructions there.
POLYCONV_INLINE void transpose_eight(F32 (&rows)[8]) {
  F32 fours[8]; // of rows 0 to 3 and 4 to 7: columns 0 to 3, each with the one four further on
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    const F32 a = rows[i], b = rows[i + 1], c = rows[i + 2], d = rows[i + 3];
    const F64 low0 = bits_as<F64>(_mm256_unpacklo_ps(a, b)), high0 = bits_as<F64>(_mm256_unpackhi_ps(a, b));
    const F64 low1 = bits_as<F64>(_mm256_unpacklo_ps(c, d)), high1 = bits_as<F64>(_mm256_unpackhi_ps(c, d));
    fours[i] = bits_as<F32>(_mm256_unpacklo_pd(low0, low1)),
    fours[i + 1] = bits_as<F32>(_mm256_unpackhi_pd(low0, low1));
    fours[i + 2] = bits_as<F32>(_mm256_unpacklo_pd(high0, high1));
    fours[i + 3] = bits_as<F32>(_mm256_unpackhi_pd(high0, high1));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = bits_as<F32>(_mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
    rows[i + 4] = bits_as<F32>(_mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
  }
}
#endif

// Each round of interleaving the halves moves one bit of the row number into the column number and back; after as many
// rounds as a column number has bits, rows and columns have changed places.
template <class T>
POLYCONV_INLINE void transpose(Vector<T> (&rows)[kLanes<T>]) {
  constexpr int kL = kLanes<T>;
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    F32 square[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) square[i] = bits_as<F32>(rows[i]);
    transpose_eight(square);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) rows[i] = bits_as<Vector<T>>(square[i]);
    return;
  }
#endif
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
