// slide.hpp - the register tile of a square filter whose taps of W are neighbours in a line: a line's vectors are
// loaded once, and what the other taps read is shifted out of two of them. Most loads a lane further on would cross a
// cache line and count twice; shifts have a port to spare beside the multiply-adds. Sums are those of tile.hpp, bit for
// bit. Floor: R * N * K * K multiply-adds against (R + K - 1) * ((N + 1) loads and (K - 1) * N shifts).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/plane/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// For these elements only: the others' vectors are shifted in two halves.
template <class T>
constexpr bool kSlides = kVectorBytes == 64 && sizeof(T) == 4;

template <int K>
struct SlideTile {
  const float *const *lines;
  const float *weights; // [tap]
  const F32 *kept;      // the same, splat, where registers have room for them
};

// The weight of a tap: one of 9 stays in a register, others are read again.
template <int K>
POLYCONV_INLINE F32 tap_weight(const SlideTile<K> &tile, int tap) {
  return K == 3 ? tile.kept[tap] : splat(tile.weights[tap]);
}

// Adds what taps `Tap` and after mean of line Y, which is `v`, to every row that reads it.
template <int Y, int Tap, int K, int R, int N>
POLYCONV_INLINE void add_slid(const SlideTile<K> &tile, const F32 (&v)[N + 1], F32 (&acc)[R][N]) {
  if constexpr (Tap < K) {
    F32 source[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) source[n] = Tap == 0 ? v[n] : shifted<Tap>(v[n], v[n + 1]);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const int row = Y - r; // of the kernel
      if (row < 0 || row >= K) continue;
      const F32 weight = tap_weight(tile, row * K + Tap);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) acc[r][n] = multiply_add(weight, source[n], acc[r][n]);
    }
    add_slid<Y, Tap + 1, K, R, N>(tile, v, acc);
  }
}

// Line Y from element x on, then the lines after it.
template <int Y, int K, int R, int N>
POLYCONV_INLINE void add_slid_lines(const SlideTile<K> &tile, int64_t x, F32 (&acc)[R][N]) {
  if constexpr (Y < R + K - 1) {
    const float *line = tile.lines[Y] + x;
    F32 v[N + 1];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) v[n] = loaded(load(line + n * kF32Lanes));
    v[N] = load_partial(line + N * kF32Lanes, K - 1); // a line may end there
    add_slid<Y, 0, K, R, N>(tile, v, acc);
    add_slid_lines<Y + 1, K, R, N>(tile, x, acc);
  }
}

// A row of `tiles` tiles of N vectors; a last one may be less than whole (PlaneStore::lanes).
template <int K, int N>
POLYCONV_NOINLINE void slide_row(const float *const *lines, const float *weights, const PlaneStore<float> &to,
                                 int64_t tiles) {
  F32 kept[9];
#pragma GCC unroll 9
  for (int i = 0; i < 9; ++i) kept[i] = splat(weights[i]);
  const SlideTile<K> tile = {lines, weights, kept};
  for (int64_t x = 0; x < tiles * N * kF32Lanes; x += N * kF32Lanes) {
    F32 acc[kPlaneRows][N] = {};
    fetch_below<float, kPlaneRows, N>(to, x);
    add_slid_lines<0, K, kPlaneRows, N>(tile, x, acc);
    store_plane(to, to.to + x, acc);
  }
}

// One tile of n vectors: kPlaneVectors, 2 or 1.
template <int K>
POLYCONV_INLINE void slide_tile_of(int n, const float *const *lines, const float *weights,
                                   const PlaneStore<float> &to) {
  if (n == kPlaneVectors) return slide_row<K, kPlaneVectors>(lines, weights, to, 1);
  if (n == 2) return slide_row<K, 2>(lines, weights, to, 1);
  slide_row<K, 1>(lines, weights, to, 1);
}

} // namespace polyconv::cpu::POLYCONV_ISA
