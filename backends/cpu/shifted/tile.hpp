// tile.hpp - the register tile of the shifted kernel: M filters by N neighbouring vectors of results, over every
// channel and tap. Floor: M * N multiply-adds a tap against N loads, most of them across a cache line, and M
// broadcasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/common/masked.hpp"
#include "cpu/shifted/plan.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kShiftedFilters = kManyRegisters ? 14 : 6, kShiftedVectors = 2;
constexpr int kShiftedSteps = kSteps<3>;
constexpr int kShiftedAhead = 24; // steps that weights are fetched ahead: some 350 cycles

struct ShiftedTile {
  const float *source; // of the first channel
  const int64_t *tap;
  int64_t taps, channels, channel_elements;
  const float *weights; // [channel][tap][filter]
  // Where results go: of each vector the lanes `first` of a row, and the lanes `next` of the row after it, which lie
  // `gap` elements further than they would in the same row.
  float *result;
  int64_t result_stride; // from filter to filter
  int64_t place[kShiftedVectors], gap;
  uint32_t first[kShiftedVectors], next[kShiftedVectors];
  const polyconv_epilogue *rules; // NULL: sums are stored as they are
  const float *bias;              // of M filters, NULL: none
};

template <int M, int N>
POLYCONV_INLINE void store_shifted(const ShiftedTile &t, F32 (&sums)[M][N]) {
  if (t.rules) {
    if (t.bias) add_bias(t.bias, sums);
    activate_tile(t.rules->activation, splat(t.rules->activation_alpha), sums);
  }
  constexpr uint32_t kAll = (1u << kF32Lanes) - 1;
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    float *place = t.result + t.place[n];
    if (t.first[n] == kAll) {
#pragma GCC unroll 16
      for (int m = 0; m < M; ++m) store(place + m * t.result_stride, sums[m][n]);
      continue;
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      store_lanes(place + m * t.result_stride, t.first[n], sums[m][n]);
      store_lanes(place + m * t.result_stride + t.gap, t.next[n], sums[m][n]);
    }
  }
}

// What one tap of a channel gives. Few lines in a row: no core foresees the next channel's. Of 16 registers a step has
// so few multiply-adds that fetching more than one of them shows, and weights are read in order.
template <int M, int N>
POLYCONV_INLINE void add_tap(const float *source, int64_t next_channel, const float *weights, F32 (&sums)[M][N]) {
  F32 vectors[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    vectors[n] = loaded(load(source + n * kF32Lanes));
    if (n % kLineVectors == 0) __builtin_prefetch(source + n * kF32Lanes + next_channel);
  }
  if constexpr (kManyRegisters) __builtin_prefetch(weights + kShiftedAhead * M);
  add_products([&](int m) { return loaded(splat(weights[m])); }, vectors, sums);
}

template <int M, int N>
POLYCONV_NOINLINE void shifted_tile(const ShiftedTile &t) {
  F32 sums[M][N] = {};
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) __builtin_prefetch(t.result + m * t.result_stride + t.place[n], 1);
  const float *channel = t.source, *weights = t.weights;
  const int64_t taps = t.taps, *const tap = t.tap, next_channel = t.channel_elements;
  for (int64_t c = 0; c < t.channels; ++c, channel += next_channel) {
    int64_t i = 0;
    for (; i + kShiftedSteps <= taps; i += kShiftedSteps, weights += kShiftedSteps * M)
#pragma GCC unroll 3
      for (int k = 0; k < kShiftedSteps; ++k) add_tap(channel + tap[i + k], next_channel, weights + k * M, sums);
    if constexpr (kShiftedSteps > 1)
      for (; i < taps; ++i, weights += M) add_tap(channel + tap[i], next_channel, weights, sums);
  }
  store_shifted(t, sums);
}

// The tile of `filters` (at most kShiftedFilters) by n vectors.
POLYCONV_INLINE void shifted_tile_of(int64_t filters, int64_t n, const ShiftedTile &t) {
  with_size<kShiftedVectors>(n, [&](auto vectors) {
    with_size<kShiftedFilters>(filters, [&](auto m) { shifted_tile<m.value, vectors.value>(t); });
  });
}

} // namespace polyconv::cpu::POLYCONV_ISA
