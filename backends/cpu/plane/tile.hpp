// tile.hpp - the register tile of a square filter: R result rows by N vectors along W, each source vector loaded once
// for all the rows that it counts for. Floor: R * N * K * K multiply-adds against (R + K - 1) * K * N loads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/plane/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kPlaneVectors = kManyRegisters ? 4 : 2;
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
  T bias, alpha;
  int32_t activation;
  T highest;            // where over 0, results are rounded and held from 0 to this
  const T *ahead;       // the first source row below these, to be brought into the cache meanwhile; or NULL
  int64_t ahead_stride; // between source rows
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

// The source of the tile below, which begins at element x of its rows.
template <class T, int Rows, int N>
POLYCONV_INLINE void fetch_below(const PlaneStore<T> &to, int64_t x) {
  if (!to.ahead) return;
  const T *row = to.ahead + x;
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r, row += to.ahead_stride)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) __builtin_prefetch(row + n * kLanes<T>, 0, 2);
}

// Rounded half to even and held from 0 to `highest`; 0 for NaN: what a store to 8 or 16 bits keeps.
template <class V>
POLYCONV_INLINE V whole_number(V v, V highest) {
  v = v > 0 ? v : V{};
  v = v > highest ? highest : v;
  if constexpr (__is_same(V, F32)) v = round_even(v);
  return v;
}

// Finishes R rows of N vectors, where that is wanted, and stores them at p. How is asked once: a store through memcpy
// might have changed `to`, as far as a compiler knows.
template <class T, int R, int N>
POLYCONV_INLINE void store_plane(const PlaneStore<T> &to, T *p, Vector<T> (&acc)[R][N]) {
  constexpr int kL = kLanes<T>;
  const int64_t stride = to.stride, rows = to.rows;
  const bool stream = to.stream, whole = !to.finish || to.lanes == kL;
  if (to.finish && (to.bias != 0 || to.activation != POLYCONV_ACT_NONE)) {
    const Vector<T> bias = splat(to.bias), alpha = splat(to.alpha);
    for_sums(acc, [&](Vector<T> v) { return activate(v + bias, to.activation, alpha); });
  }
  if (to.finish && to.highest > 0) {
    const Vector<T> highest = splat(to.highest);
    for_sums(acc, [&](Vector<T> v) { return whole_number(v, highest); });
  }
  if (stream && whole) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r, p += stride) {
      if (r >= rows) return;
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) store_past_cache(p + n * kL, acc[r][n]);
    }
    return;
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r, p += stride) {
    if (r >= rows) return;
#pragma GCC unroll 8
    for (int n = 0; n < N - 1; ++n) store(p + n * kL, acc[r][n]);
    if (whole)
      store(p + (N - 1) * kL, acc[r][N - 1]);
    else
      store_partial(p + (N - 1) * kL, acc[r][N - 1], to.lanes);
  }
}

template <class T, int K, int Step, int N, bool Periodic>
POLYCONV_NOINLINE void plane_tile(const T *const *lines, const int64_t *taps, const T *weights,
                                  const PlaneStore<T> &to) {
  Vector<T> acc[kPlaneRows][N] = {};
  fetch_below<T, kPlaneRows * Step, N>(to, 0);
  add_lines<0, Periodic>(PlaneTile<T, K, Step, kPlaneRows, N>{lines, taps, weights}, acc);
  store_plane(to, to.to, acc);
}

// A row of `tiles` whole tiles of a 3 x 3 filter, whose 9 weights stay in registers from one to the next.
template <class T, int Step>
POLYCONV_NOINLINE void plane_row3(const T *const *lines, const int64_t *taps, const T *weights, const PlaneStore<T> &to,
                                  int64_t tiles) {
  constexpr int kR = kPlaneRows, kN = kPlaneVectors, kLines = (kR - 1) * Step + 3;
  Vector<T> w[9];
#pragma GCC unroll 9
  for (int i = 0; i < 9; ++i) w[i] = splat(weights[i]);
  const T *line[kLines];
#pragma GCC unroll 16
  for (int y = 0; y < kLines; ++y) line[y] = lines[y];
  const int64_t tap[3] = {taps[0], taps[1], taps[2]};
  T *p = to.to;
  for (int64_t tile = 0; tile < tiles; ++tile, p += kN * kLanes<T>) {
    Vector<T> acc[kR][kN] = {};
#pragma GCC unroll 16
    for (int y = 0; y < kLines; ++y) {
#pragma GCC unroll 3
      for (int k = 0; k < 3; ++k) {
        const T *source = line[y] + tap[k];
        __asm__("" : "+r"(source)); // else gcc keeps a sum of offsets for each k and n, more than there are registers
#pragma GCC unroll 8
        for (int n = 0; n < kN; ++n) {
          const Vector<T> v = loaded(load(source + n * kLanes<T>));
#pragma GCC unroll 4
          for (int r = 0; r < kR; ++r)
            if (y >= r * Step && y < r * Step + 3) acc[r][n] = multiply_add(w[(y - r * Step) * 3 + k], v, acc[r][n]);
        }
      }
      line[y] += kN * kLanes<T>;
    }
    fetch_below<T, kR * Step, kN>(to, p - to.to);
    store_plane(to, p, acc);
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
