// weights_tile.hpp - the register tiles of weight gradients, over the (input row, gradient row) pairs of one tap of D
// and H. Columns are (input channel, tap of W): offsets in an input row.
//
// Channels along: U columns by N vectors of output channels; each pixel is a broadcast of U inputs. W along: M output
// channels by U columns, each a vector of partial sums; a multiply-add takes one input and one gradient vector.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

#if POLYCONV_VECTOR_REGISTERS == 32
constexpr int kWeightsColumns = 8, kWeightsAcross = 4; // columns of a tile with channels and with W along
#else
constexpr int kWeightsColumns = 6, kWeightsAcross = 3;
#endif
constexpr int kWeightsChannels = 4; // output channels of a tile with W along

template <class T>
struct WeightsPair {
  const T *input, *gradient;
};

// Gradients are [pixel][k_stride]; sums[u * k_stride + lane] +=.
template <class T, int U, int N>
POLYCONV_NOINLINE void weights_along(const WeightsPair<T> *pairs, int64_t count, const int64_t *columns, int64_t pixels,
                                     int64_t k_stride, T *sums) {
  typedef Vector<T> V;
  constexpr int kL = kLanes<T>;
  V acc[U][N];
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) acc[u][n] = load(sums + u * k_stride + n * kL);
  for (int64_t i = 0; i < count; ++i) {
    const T *column[U];
#pragma GCC unroll 16
    for (int u = 0; u < U; ++u) column[u] = pairs[i].input + columns[u];
    const T *gradient = pairs[i].gradient;
    for (int64_t x = 0; x < pixels; ++x, gradient += k_stride) {
      V v[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) v[n] = load(gradient + n * kL);
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) {
        const V scalar = splat(column[u][x]);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) acc[u][n] = multiply_add(scalar, v[n], acc[u][n]);
      }
    }
  }
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store(sums + u * k_stride + n * kL, acc[u][n]);
}

// Gradients are [k][row_stride], zero beyond `pixels` up to a whole vector; sums[(u * k_count + m) * lanes] += vectors.
template <class T, int M, int U>
POLYCONV_NOINLINE void weights_across(const WeightsPair<T> *pairs, int64_t count, const int64_t *columns,
                                      int64_t pixels, int64_t row_stride, int64_t k_count, T *sums) {
  typedef Vector<T> V;
  constexpr int kL = kLanes<T>;
  V acc[M][U];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) acc[m][u] = load(sums + (u * k_count + m) * kL);
  const int64_t whole = pixels / kL * kL;
  const int rest = static_cast<int>(pixels - whole);
  for (int64_t i = 0; i < count; ++i) {
    const T *column[U];
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) column[u] = pairs[i].input + columns[u];
    const T *gradient = pairs[i].gradient;
    for (int64_t x = 0; x < pixels; x += kL) {
      V v[U];
      if (x < whole) {
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) v[u] = load(column[u] + x);
      } else { // what lies beyond the row belongs to other taps: an infinity there must not meet the zeros
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) v[u] = load_partial(column[u] + x, rest);
      }
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) {
        const V g = load(gradient + m * row_stride + x);
#pragma GCC unroll 8
        for (int u = 0; u < U; ++u) acc[m][u] = multiply_add(g, v[u], acc[m][u]);
      }
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) store(sums + (u * k_count + m) * kL, acc[m][u]);
}

template <class T, int U = kWeightsColumns>
POLYCONV_INLINE void weights_along_of(int u, int n, const WeightsPair<T> *pairs, int64_t count, const int64_t *columns,
                                      int64_t pixels, int64_t k_stride, T *sums) {
  if constexpr (U > 1)
    if (u < U) return weights_along_of<T, U - 1>(u, n, pairs, count, columns, pixels, k_stride, sums);
  if (n > 1) return weights_along<T, U, 2>(pairs, count, columns, pixels, k_stride, sums);
  weights_along<T, U, 1>(pairs, count, columns, pixels, k_stride, sums);
}

template <class T, int M = kWeightsChannels, int U = kWeightsAcross>
POLYCONV_INLINE void weights_across_of(int m, int u, const WeightsPair<T> *pairs, int64_t count, const int64_t *columns,
                                       int64_t pixels, int64_t row_stride, int64_t k_count, T *sums) {
  if constexpr (M > 1)
    if (m < M) return weights_across_of<T, M - 1, U>(m, u, pairs, count, columns, pixels, row_stride, k_count, sums);
  if constexpr (U > 1)
    if (u < U) return weights_across_of<T, M, U - 1>(m, u, pairs, count, columns, pixels, row_stride, k_count, sums);
  weights_across<T, M, U>(pairs, count, columns, pixels, row_stride, k_count, sums);
}

} // namespace polyconv::cpu::POLYCONV_ISA
