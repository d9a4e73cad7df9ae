// slide.hpp - the register tile of a square filter whose taps of W are neighbours in a line: a line's vectors are
// loaded once, and what the other taps read is shifted out of two of them. Most loads a lane further on would cross a
// cache line and count twice; shifts have a port to spare beside the multiply-adds. Sums are those of tile.hpp, bit for
// bit. Floor: R * N * K * K multiply-adds against (R + K - 1) * ((N + 1) loads and (K - 1) * N shifts).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/masked.hpp"
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

// What exists of a tile's N + 1 source vectors: a bit for each element; zeros pad the rest.
struct SlideMask {
  uint32_t vector[kPlaneVectors + 1];
};

// Elements [first, last) of a line that begins with the tile's first vector.
POLYCONV_INLINE SlideMask slide_mask(int64_t first, int64_t last) {
  constexpr int64_t kL = kF32Lanes;
  SlideMask mask;
  for (int64_t n = 0; n <= kPlaneVectors; ++n) {
    const int64_t a = first - n * kL, b = last - n * kL;
    const uint32_t below = a <= 0 ? 0 : a >= kL ? 0xffffu : (1u << a) - 1;
    mask.vector[n] = (b <= 0 ? 0 : b >= kL ? 0xffffu : (1u << b) - 1) & ~below;
  }
  return mask;
}

// Line Y from element x on, then the lines after it. Without a mask, every element exists that a result needs.
template <int Y, int K, int R, int N>
POLYCONV_INLINE void add_slid_lines(const SlideTile<K> &tile, const SlideMask *mask, int64_t x, F32 (&acc)[R][N]) {
  if constexpr (Y < R + K - 1) {
    const float *line = tile.lines[Y] + x;
    F32 v[N + 1];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const float *p = line + n * kF32Lanes;
      v[n] = loaded(mask ? load_into(F32{}, mask->vector[n], p) : load(p));
    }
    const float *end = line + N * kF32Lanes; // a line may end there
    v[N] = mask ? load_into(F32{}, mask->vector[N], end) : load_partial(end, K - 1);
    add_slid<Y, 0, K, R, N>(tile, v, acc);
    add_slid_lines<Y + 1, K, R, N>(tile, mask, x, acc);
  }
}

// A row of `tiles` tiles of N vectors from `lines` on.
template <int K, int N>
POLYCONV_INLINE void slide_tiles(const float *const *lines, const float *weights, const PlaneStore<float> &to,
                                 const SlideMask *mask, int64_t first, int64_t tiles) {
  F32 kept[9];
#pragma GCC unroll 9
  for (int i = 0; i < 9; ++i) kept[i] = splat(weights[i]);
  const SlideTile<K> tile = {lines, weights, kept};
  for (int64_t x = first; x < first + tiles * N * kF32Lanes; x += N * kF32Lanes) {
    F32 acc[kPlaneRows][N] = {};
    fetch_below<float, kPlaneRows, N>(to, x);
    add_slid_lines<0, K, kPlaneRows, N>(tile, mask, x, acc);
    store_plane(to, to.to + x, acc);
  }
}

// Whole tiles from element x on, of whose sources everything exists.
template <int K>
POLYCONV_NOINLINE void slide_row(const float *const *lines, const float *weights, const PlaneStore<float> &to,
                                 int64_t x, int64_t tiles) {
  slide_tiles<K, kPlaneVectors>(lines, weights, to, nullptr, x, tiles);
}

// One tile of n vectors at element x, kPlaneVectors, 2 or 1: at an edge or a ragged end (PlaneStore::lanes).
template <int K, int N>
POLYCONV_NOINLINE void slide_edge(const float *const *lines, const float *weights, const PlaneStore<float> &to,
                                  const SlideMask &mask, int64_t x) {
  slide_tiles<K, N>(lines, weights, to, &mask, x, 1);
}
template <int K>
POLYCONV_INLINE void slide_edge_of(int64_t n, const float *const *lines, const float *weights,
                                   const PlaneStore<float> &to, const SlideMask &mask, int64_t x) {
  if (n == kPlaneVectors) return slide_edge<K, kPlaneVectors>(lines, weights, to, mask, x);
  if (n == 2) return slide_edge<K, 2>(lines, weights, to, mask, x);
  slide_edge<K, 1>(lines, weights, to, mask, x);
}

} // namespace polyconv::cpu::POLYCONV_ISA
