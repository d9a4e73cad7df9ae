// tile.hpp - the register tile of a square filter: R result rows by N vectors along W, each source vector loaded once
// for all the rows that it counts for. Floor: R * N * K * K multiply-adds against (R + K - 1) * K * N loads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/finish.hpp"
#include "cpu/plane/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

#if defined(__AVX512F__)
constexpr int kPlaneVectors = 4;
#else
constexpr int kPlaneVectors = 2;
#endif
constexpr int kPlanePeriod = 3; // vectors of a tile with periodic weights: a whole number of RGB pixels

// Where a tile's sums go: a buffer, or results, finished with a bias and a quick activation.
template <class T>
struct PlaneStore {
  T *to;
  int64_t stride; // between rows
  int64_t rows;   // that exist
  int32_t stream; // past the cache
  int lanes;      // of the last vector, if finished
  bool finish;
  T bias;
  const polyconv_epilogue &rules;
};

template <class T, int K, int Step, int R, int N>
struct PlaneTile {
  const T *const *lines;
  const int64_t *taps;
  const T *weights; // [tap] or, periodic, [tap][N][lanes]
};

// Adds what source line Y means to every row that reads it, then the lines after it.
template <int Y, bool Periodic, class T, int K, int Step, int R, int N>
POLYCONV_INLINE void add_lines(const PlaneTile<T, K, Step, R, N> &tile, Vector<T> (&acc)[R][N]) {
  constexpr int kL = kLanes<T>;
  const T *line = tile.lines[Y];
#pragma GCC unroll 1
  for (int k = 0; k < K; ++k) {
    const T *source = line + tile.taps[k];
    Vector<T> v[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) v[n] = load(source + n * kL);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int row = Y - r * Step; // of the kernel
      if (row < 0 || row >= K) continue;
      const T *weight = tile.weights + (row * K + k) * (Periodic ? N * kL : 1);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n)
        acc[r][n] = multiply_add(Periodic ? load(weight + n * kL) : splat(*weight), v[n], acc[r][n]);
    }
  }
  if constexpr (Y + 1 < (R - 1) * Step + K) add_lines<Y + 1, Periodic>(tile, acc);
}

template <class T, int K, int Step, int N, bool Periodic>
POLYCONV_NOINLINE void plane_tile(const T *const *lines, const int64_t *taps, const T *weights,
                                  const PlaneStore<T> &to) {
  constexpr int kR = kPlaneRows, kL = kLanes<T>;
  Vector<T> acc[kR][N] = {};
  add_lines<0, Periodic>(PlaneTile<T, K, Step, kR, N>{lines, taps, weights}, acc);
  if (to.finish) {
    const Vector<T> bias = splat(to.bias), alpha = splat(static_cast<T>(to.rules.activation_alpha));
    const int32_t activation = to.rules.activation;
#pragma GCC unroll 4
    for (int r = 0; r < kR; ++r)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) acc[r][n] = activate(acc[r][n] + bias, activation, alpha);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kR; ++r) {
    if (r >= to.rows) break;
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      T *p = to.to + r * to.stride + n * kL;
      if (n == N - 1 && to.finish && to.lanes < kL)
        store_partial(p, acc[r][n], to.lanes);
      else if (to.stream)
        store_past_cache(p, acc[r][n]);
      else
        store(p, acc[r][n]);
    }
  }
}

// The tile of n vectors: kPlaneVectors, 2 or 1. Periodic tiles are another matter.
template <class T, int K, int Step>
POLYCONV_INLINE void plane_tile_of(int n, const T *const *lines, const int64_t *taps, const T *weights,
                                   const PlaneStore<T> &to) {
  if (n == kPlaneVectors) return plane_tile<T, K, Step, kPlaneVectors, false>(lines, taps, weights, to);
  if (n == 2) return plane_tile<T, K, Step, 2, false>(lines, taps, weights, to);
  plane_tile<T, K, Step, 1, false>(lines, taps, weights, to);
}

} // namespace polyconv::cpu::POLYCONV_ISA
