// tile.hpp - the register tile of the direct kernel: M scalars by N vectors of sums, over every term, channel and tap.
//
// With channels along the vectors the scalars are M neighbouring source elements and the vectors weights; with W along
// the vectors the scalars are the weights of M result channels and the vectors source elements. Floor: M * N
// multiply-adds a tap against N vector loads and M broadcasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/direct/plan.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kDirectPixels =
    kManyRegisters ? 12 : 6; // results of a tile with channels along the vectors, by 2 of these
constexpr int kDirectVectors = kManyRegisters ? 6 : 3; // vectors of a tile with W along the vectors
constexpr int kDirectChannels = 4;                     // result channels of a tile with W along the vectors

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
  V acc[M][N] = {};
  const int64_t tap_count = s.tap_count;
  for (int64_t term = 0; term < s.term_count; ++term) {
    const T *row = s.terms[term].row + x, *weights = s.terms[term].weights;
    for (int64_t c = 0; c < s.channels; ++c, row += s.row_elements, weights += s.weight_elements) {
      for (int64_t t = 0; t < tap_count; ++t) {
        const T *source = row + s.taps[t].source, *weight = weights + s.taps[t].weight;
        const T *vectors = ChannelsAlong ? weight : source, *scalars = ChannelsAlong ? source : weight;
        V v[N];
        load_vectors(vectors, v);
        add_products([scalars](int m) { return splat(scalars[m]); }, v, acc); // by reference it would be kept in memory
      }
    }
  }
  store_rows(sums, stride, acc);
}

// The tile of m by n; ChannelsAlong: m <= kDirectPixels, n <= 2; else m <= kDirectChannels, n <= kDirectVectors.
template <class T, bool ChannelsAlong>
POLYCONV_INLINE void direct_tile_of(int m, int n, const DirectSum<T> &s, int64_t x, T *sums, int64_t stride) {
  with_size<ChannelsAlong ? 2 : kDirectVectors>(n, [&](auto vectors) {
    with_size<ChannelsAlong ? kDirectPixels : kDirectChannels>(
        m, [&](auto scalars) { direct_tile<T, scalars.value, vectors.value, ChannelsAlong>(s, x, sums, stride); });
  });
}

} // namespace polyconv::cpu::POLYCONV_ISA
