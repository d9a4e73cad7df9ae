// tile.hpp - the register tile of the direct kernel: M scalars by N vectors of sums, over every term, channel and tap.
//
// With channels along the vectors the scalars are M neighbouring source elements and the vectors weights; with W along
// the vectors the scalars are the weights of M result channels and the vectors source elements. Floor: M * N
// multiply-adds a tap against N vector loads and M broadcasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"
#include "cpu/direct/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

#if POLYCONV_VECTOR_REGISTERS == 32
constexpr int kDirectPixels = 12; // results of a tile with channels along the vectors: 12 x 2 sums
constexpr int kDirectVectors = 6; // vectors of a tile with W along the vectors: 4 x 6 sums
#else
constexpr int kDirectPixels = 6;
constexpr int kDirectVectors = 3;
#endif
constexpr int kDirectChannels = 4; // result channels of a tile with W along the vectors

// A source row in scratch and the weights that it meets.
template <class T>
struct DirectTerm {
  const T *row, *weights;
};

template <class T>
struct DirectSum {
  const DirectTerm<T> *terms;
  int64_t term_count, channels, row_elements, weight_elements; // of one channel
  const DirectTap *taps;
  int64_t tap_count;
};

// sums[m * stride + lane] with M results (channels along) or M channels. `x` is the first result in its phase.
template <class T, int M, int N, bool ChannelsAlong>
POLYCONV_NOINLINE void direct_tile(const DirectSum<T> &s, int64_t x, T *sums, int64_t stride) {
  typedef Vector<T> V;
  constexpr int kL = kLanes<T>;
  V acc[M][N] = {};
  const int64_t tap_count = s.tap_count;
  for (int64_t term = 0; term < s.term_count; ++term) {
    const T *row = s.terms[term].row + x, *weights = s.terms[term].weights;
    for (int64_t c = 0; c < s.channels; ++c, row += s.row_elements, weights += s.weight_elements) {
      for (int64_t t = 0; t < tap_count; ++t) {
        const T *source = row + s.taps[t].source, *weight = weights + s.taps[t].weight;
        const T *vectors = ChannelsAlong ? weight : source, *scalars = ChannelsAlong ? source : weight;
        V v[N];
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) v[n] = load(vectors + n * kL);
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
          const V scalar = splat(scalars[m]);
#pragma GCC unroll 8
          for (int n = 0; n < N; ++n) acc[m][n] = multiply_add(scalar, v[n], acc[m][n]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) store(sums + m * stride + n * kL, acc[m][n]);
}

// The tile of m by n; ChannelsAlong: m <= kDirectPixels, n <= 2; else m <= kDirectChannels, n <= kDirectVectors.
template <class T, bool ChannelsAlong, int N, int M>
POLYCONV_INLINE void direct_rows(int m, const DirectSum<T> &s, int64_t x, T *sums, int64_t stride) {
  if constexpr (M > 1)
    if (m < M) return direct_rows<T, ChannelsAlong, N, M - 1>(m, s, x, sums, stride);
  direct_tile<T, M, N, ChannelsAlong>(s, x, sums, stride);
}
template <class T, bool ChannelsAlong, int N = ChannelsAlong ? 2 : kDirectVectors>
POLYCONV_INLINE void direct_tile_of(int m, int n, const DirectSum<T> &s, int64_t x, T *sums, int64_t stride) {
  if constexpr (N > 1)
    if (n < N) return direct_tile_of<T, ChannelsAlong, N - 1>(m, n, s, x, sums, stride);
  direct_rows<T, ChannelsAlong, N, ChannelsAlong ? kDirectPixels : kDirectChannels>(m, s, x, sums, stride);
}

} // namespace polyconv::cpu::POLYCONV_ISA
