// any.hpp - the register tile of a filter of any size: R result rows by N vectors along W. A source vector is loaded
// once for a tap of W and counts for all R rows; only the first and last R - 1 source lines meet fewer.
// Floor: R * N multiply-adds a tap against N source loads, which mostly cross a cache line, and R broadcasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/plane/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// A filter's lines, from element x on, and its weights: [tap] or, periodic, [tap][N][lanes].
template <class T>
struct PlaneTaps {
  const T *const *lines;
  const int64_t *tap; // along W
  const T *weights;
  int64_t rows, columns; // of the filter
};

// Source line y, which result rows Low to High read.
template <int Low, int High, bool Periodic, class T, int R, int N>
POLYCONV_INLINE void add_line(const PlaneTaps<T> &f, int64_t y, int64_t x, Vector<T> (&acc)[R][N]) {
  constexpr int kL = kLanes<T>, kWeight = Periodic ? N * kL : 1;
  const T *line = f.lines[y] + x, *weights = f.weights + (y - High) * f.columns * kWeight;
  const int64_t row = f.columns * kWeight;
#pragma GCC unroll 1
  for (int64_t k = 0; k < f.columns; ++k, weights += kWeight) {
    Vector<T> v[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) v[n] = loaded(load(line + f.tap[k] + n * kL));
#pragma GCC unroll 4
    for (int r = Low; r <= High; ++r) {
      const T *weight = weights + (High - r) * row;
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n)
        acc[r][n] = multiply_add(Periodic ? load(weight + n * kL) : splat(*weight), v[n], acc[r][n]);
    }
  }
}

// Lines are taken in order, so that a row's sum does not depend on R.
template <class T, int R, int N, bool Periodic>
POLYCONV_NOINLINE void any_tile(const PlaneTaps<T> &f, int64_t x, const PlaneStore<T> &to) {
  Vector<T> acc[R][N] = {};
  if constexpr (R > 1) add_line<0, 0, Periodic>(f, 0, x, acc);
  if constexpr (R > 2) add_line<0, 1, Periodic>(f, 1, x, acc);
  if constexpr (R > 3) add_line<0, 2, Periodic>(f, 2, x, acc);
  for (int64_t y = R - 1; y < f.rows; ++y) add_line<0, R - 1, Periodic>(f, y, x, acc);
  if constexpr (R > 1) add_line<1, R - 1, Periodic>(f, f.rows, x, acc);
  if constexpr (R > 2) add_line<2, R - 1, Periodic>(f, f.rows + 1, x, acc);
  if constexpr (R > 3) add_line<3, R - 1, Periodic>(f, f.rows + 2, x, acc);
  store_plane(to, to.to, acc);
}

// Vectors of a tile of R rows: 16 sums, or 8.
template <int R>
constexpr int kAnyVectors = R == kPlaneRows ? kPlaneVectors : 2 * kPlaneVectors;

// The tile of n vectors: kAnyVectors, 2 or 1; of kPlanePeriod where the weights are periodic.
template <class T, int R>
POLYCONV_INLINE void any_tile_of(int64_t n, bool periodic, const PlaneTaps<T> &f, int64_t x, const PlaneStore<T> &to) {
  if (periodic) return any_tile<T, R, kPlanePeriod, true>(f, x, to);
  if (n == kAnyVectors<R>) return any_tile<T, R, kAnyVectors<R>, false>(f, x, to);
  if (n == 2) return any_tile<T, R, 2, false>(f, x, to);
  any_tile<T, R, 1, false>(f, x, to);
}

} // namespace polyconv::cpu::POLYCONV_ISA
