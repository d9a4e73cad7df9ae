// weights_tile.hpp - the register tiles of weight gradients, over the (input row, gradient row) pairs of one tap of D
// and H. Columns are (input channel, tap of W): offsets in an input row.
//
// Channels along: U columns by N vectors of output channels; each pixel is a broadcast of U inputs. W along: M output
// channels by U columns, each a vector of partial sums; a multiply-add takes one input and one gradient vector.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Columns of a tile with channels and with W along, and output channels of the latter.
constexpr int kWeightsColumns = kManyRegisters ? 8 : 6, kWeightsAcross = kManyRegisters ? 4 : 3, kWeightsChannels = 4;

template <class T>
struct WeightsPair {
  const T *input, *gradient;
};

// Gradients are [pixel][k_stride]; sums[u * k_stride + lane] +=.
template <class T, int U, int N>
POLYCONV_NOINLINE void weights_along(const WeightsPair<T> *pairs, int64_t count, const int64_t *columns, int64_t pixels,
                                     int64_t k_stride, T *sums) {
  typedef Vector<T> V;
  V acc[U][N];
  load_rows(sums, k_stride, acc);
  for (int64_t i = 0; i < count; ++i) {
    const T *column[U];
#pragma GCC unroll 16
    for (int u = 0; u < U; ++u) column[u] = pairs[i].input + columns[u];
    const T *gradient = pairs[i].gradient;
    for (int64_t x = 0; x < pixels; ++x, gradient += k_stride) {
      V v[N];
      load_vectors(gradient, v);
      add_products([&](int u) { return splat(column[u][x]); }, v, acc);
    }
  }
  store_rows(sums, k_stride, acc);
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
      add_products([&](int m) { return load(gradient + m * row_stride + x); }, v, acc);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) store(sums + (u * k_count + m) * kL, acc[m][u]);
}

template <class T>
POLYCONV_INLINE void weights_along_of(int u, int n, const WeightsPair<T> *pairs, int64_t count, const int64_t *columns,
                                      int64_t pixels, int64_t k_stride, T *sums) {
  with_size<kWeightsColumns>(u, [&](auto wide) {
    with_size<2>(n, [&](auto vectors) {
      weights_along<T, wide.value, vectors.value>(pairs, count, columns, pixels, k_stride, sums);
    });
  });
}

template <class T>
POLYCONV_INLINE void weights_across_of(int m, int u, const WeightsPair<T> *pairs, int64_t count, const int64_t *columns,
                                       int64_t pixels, int64_t row_stride, int64_t k_count, T *sums) {
  with_size<kWeightsChannels>(m, [&](auto high) {
    with_size<kWeightsAcross>(u, [&](auto wide) {
      weights_across<T, high.value, wide.value>(pairs, count, columns, pixels, row_stride, k_count, sums);
    });
  });
}

} // namespace polyconv::cpu::POLYCONV_ISA
