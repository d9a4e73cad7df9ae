// tile.hpp - the register tile of weight gradients: U input channels by N vectors of output channels, over the pixels
// of a unit. A pixel is N loaded vectors, U broadcasts and U * N multiply-adds: with 14 x 2 (AVX-512) or 6 x 2 the
// multiply-adds decide, as in the dense kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/product/ahead.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kProductRows = kManyRegisters ? 14 : 6;

// Neighbouring pixels: elements from the two panels' first.
struct ProductPixels {
  int64_t tall, wide, count;
};

template <class T>
struct ProductTile {
  const T *tall, *wide; // panels, moved to the tap
  const ProductPixels *runs;
  int64_t run_count, cut; // pixels that each run is shorter by
  int64_t tall_step, wide_step;
  T *sums; // U rows of wide_step
  bool first;
  ProductAhead *ahead;
};

// Pixels whose sums are apart, and added at the end: tiles of few sums would wait for each multiply-add.
constexpr int product_chains(int sums) {
  return sums <= 2 ? 4 : sums <= 5 ? 2 : 1;
}

template <class T, int U, int N>
POLYCONV_INLINE void add_pixel(const T *tall, const T *wide, Vector<T> (&sums)[U][N]) {
  Vector<T> vectors[N];
  load_vectors(wide, vectors);
  add_products([&](int u) { return splat(tall[u]); }, vectors, sums);
}

template <class T, int U, int N>
POLYCONV_NOINLINE void product_tile(const ProductTile<T> &t) {
  typedef Vector<T> V;
  constexpr int kL = kLanes<T>, kChains = product_chains(U * N);
  V sums[U][N], others[kChains][U][N] = {}; // the first of these stays empty
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) sums[u][n] = t.first ? V{} : load(t.sums + u * t.wide_step + n * kL);
  ProductAhead ahead = *t.ahead;
  for (int64_t i = 0; i < t.run_count; ++i) {
    const T *tall = t.tall + t.runs[i].tall, *wide = t.wide + t.runs[i].wide;
    int64_t x = t.runs[i].count - t.cut;
    if constexpr (kChains > 1)
      for (; x >= kChains; x -= kChains) {
        fetch_some(ahead);
#pragma GCC unroll 4
        for (int chain = 0; chain < kChains; ++chain, tall += t.tall_step, wide += t.wide_step) {
          V(&to)[U][N] = chain == 0 ? sums : others[chain];
#pragma GCC unroll 2
          for (int n = 0; n < N; ++n) {
            const V vector = loaded(load(wide + n * kL));
#pragma GCC unroll 16
            for (int u = 0; u < U; ++u) to[u][n] = multiply_add(splat(tall[u]), vector, to[u][n]);
          }
        }
      }
    for (; x >= kProductSteps; x -= kProductSteps) {
      fetch_some(ahead);
#pragma GCC unroll 2
      for (int step = 0; step < kProductSteps; ++step, tall += t.tall_step, wide += t.wide_step)
        add_pixel(tall, wide, sums);
    }
    if (x > 0) add_pixel(tall, wide, sums);
  }
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 4
      for (int chain = 1; chain < kChains; ++chain) sums[u][n] += others[chain][u][n];
      store(t.sums + u * t.wide_step + n * kL, sums[u][n]);
    }
  *t.ahead = ahead;
}

// The tile of 1 to kProductRows rows.
template <class T, int N>
POLYCONV_INLINE void product_tile_of(int64_t rows, const ProductTile<T> &tile) {
  with_size<kProductRows>(rows, [&](auto u) { product_tile<T, u.value, N>(tile); });
}

// ---------------------------------------------------------------- depthwise

constexpr int kProductTaps = 8; // of a tile at most

// S taps of W, `tap_step` elements apart, of one vector of channels. As many pixels at once as hide the latency of the
// multiply-adds; their sums are added at the end.
template <class T, int S>
POLYCONV_NOINLINE void lane_tile(int64_t tap_step, const ProductTile<T> &t) {
  typedef Vector<T> V;
  constexpr int kPixels = S == 1 ? 8 : S <= 3 ? 4 : 2;
  V sums[kPixels][S] = {};
  ProductAhead ahead = *t.ahead;
  if (!t.first)
#pragma GCC unroll 8
    for (int s = 0; s < S; ++s) sums[0][s] = load(t.sums + s * t.wide_step);
  for (int64_t i = 0; i < t.run_count; ++i) {
    const T *tall = t.tall + t.runs[i].tall, *wide = t.wide + t.runs[i].wide;
    int64_t left = t.runs[i].count;
    for (; left >= kPixels; left -= kPixels) {
      fetch_some(ahead);
#pragma GCC unroll 8
      for (int x = 0; x < kPixels; ++x, tall += t.tall_step, wide += t.wide_step) {
        const V gradient = load(wide);
#pragma GCC unroll 8
        for (int s = 0; s < S; ++s) sums[x][s] = multiply_add(load(tall + s * tap_step), gradient, sums[x][s]);
      }
    }
    for (; left > 0; --left, tall += t.tall_step, wide += t.wide_step) {
      const V gradient = load(wide);
#pragma GCC unroll 8
      for (int s = 0; s < S; ++s) sums[0][s] = multiply_add(load(tall + s * tap_step), gradient, sums[0][s]);
    }
  }
#pragma GCC unroll 8
  for (int s = 0; s < S; ++s) {
    V sum = sums[0][s];
#pragma GCC unroll 8
    for (int x = 1; x < kPixels; ++x) sum += sums[x][s];
    store(t.sums + s * t.wide_step, sum);
  }
  *t.ahead = ahead;
}

// The tile of 1 to kProductTaps taps.
template <class T>
POLYCONV_INLINE void lane_tile_of(int64_t taps, int64_t tap_step, const ProductTile<T> &tile) {
  with_size<kProductTaps>(taps, [&](auto s) { lane_tile<T, s.value>(tap_step, tile); });
}

} // namespace polyconv::cpu::POLYCONV_ISA
