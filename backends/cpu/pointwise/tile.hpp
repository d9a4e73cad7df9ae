// tile.hpp - the register tile of the pointwise kernel: M output channels by N vectors of pixels, 2 or 1; of few output
// channels more, as each vector then counts for so little that reading decides: whole lines side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/activate.hpp"
#include "cpu/pointwise/plan.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kPointwiseAhead = 24; // steps that weights are fetched ahead: some 350 cycles
constexpr int kPointwiseSteps = kSteps<2>;
// Vectors of the tile of few output channels: up to 4, or 2, as the driver has it.
constexpr int kPointwiseWide = kManyRegisters ? 6 : 4;

struct PointwiseTile {
  const float *source;
  int64_t source_stride; // from channel to channel
  const float *weights;
  int64_t weight_stride, channels; // of the reduction
  float *result;                   // M rows
  int64_t result_stride;
  int last_lanes;    // pixels of the last vector
  const float *bias; // of M channels, NULL: none
  bool relu;
  bool stream; // results pass the caches by
};

template <int M, int N>
POLYCONV_INLINE void store_pointwise(const PointwiseTile &t, F32 (&sums)[M][N]) {
  if (t.bias) add_bias(t.bias, sums);
  if (t.relu) for_sums(sums, [](F32 v) { return v < F32{} ? F32{} : v; }); // NaN stays
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    float *row = t.result + m * t.result_stride;
    float *last = row + (N - 1) * kF32Lanes;
    if (t.stream) {
#pragma GCC unroll 6
      for (int n = 0; n < N; ++n) store_past_cache(row + n * kF32Lanes, sums[m][n]);
      continue;
    }
#pragma GCC unroll 6
    for (int n = 0; n < N - 1; ++n) store(row + n * kF32Lanes, sums[m][n]);
    if (t.last_lanes == kF32Lanes)
      store(last, sums[m][N - 1]);
    else
      store_partial(last, sums[m][N - 1], t.last_lanes);
  }
}

// The channel at `source`. Of a tile to come a line for every channel is fetched; of a wide one into the second cache,
// which has room for more on their way.
template <int M, int N>
POLYCONV_INLINE void add_channel(const float *source, const float *weights, F32 (&sums)[M][N]) {
  F32 vectors[N];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n) {
    vectors[n] = load(source + n * kF32Lanes);
    if (n % kLineVectors == 0) __builtin_prefetch(source + ((N > 2 ? 2 : 1) * N + n) * kF32Lanes, 0, N > 2 ? 2 : 3);
  }
  add_products([&](int m) { return splat(weights[m]); }, vectors, sums);
}

template <int M, int N>
POLYCONV_NOINLINE void pointwise_tile(const PointwiseTile &t) {
  F32 sums[M][N] = {};
  const float *source = t.source, *weights = t.weights;
  if (!t.stream) fetch_rows<M, N>(t.result, t.result_stride);
  const int64_t source_stride = t.source_stride, weight_stride = t.weight_stride;
  int64_t left = t.channels;
  for (; left >= kPointwiseSteps; left -= kPointwiseSteps) {
    __builtin_prefetch(weights + kPointwiseAhead * weight_stride);
#pragma GCC unroll 2
    for (int i = 0; i < kPointwiseSteps; ++i, source += source_stride, weights += weight_stride)
      add_channel(source, weights, sums);
  }
  if (left > 0) add_channel(source, weights, sums);
  store_pointwise(t, sums);
}

// The tile of N vectors by 1 to 14 (AVX-512) or 6 rows; the wide one by 1 to 4 or 2.
template <int N>
POLYCONV_INLINE void pointwise_tile_of(int64_t rows, const PointwiseTile &t) {
  constexpr int kMost = N == kPointwiseWide ? (kManyRegisters ? 4 : 2) : kManyRegisters ? 14 : 6;
  with_size<kMost>(rows, [&](auto m) { pointwise_tile<m.value, N>(t); });
}

} // namespace polyconv::cpu::POLYCONV_ISA
