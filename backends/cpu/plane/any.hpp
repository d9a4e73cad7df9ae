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

enum class Taps { kPlain, kPeriodic, kColumn }; // kColumn: a filter of one column, at offset 0

// Source line y, which result rows Low to High read.
template <int Low, int High, Taps kind, class T, int R, int N>
POLYCONV_INLINE void add_line(const PlaneTaps<T> &f, int64_t y, int64_t x, Vector<T> (&acc)[R][N]) {
  constexpr int kL = kLanes<T>, kWeight = kind == Taps::kPeriodic ? N * kL : 1;
  const int64_t columns = kind == Taps::kColumn ? 1 : f.columns, row = columns * kWeight;
  const T *line = f.lines[y] + x, *weights = f.weights + (y - High) * row;
#pragma GCC unroll 1
  for (int64_t k = 0; k < columns; ++k, weights += kWeight) {
    const T *source = kind == Taps::kColumn ? line : line + f.tap[k];
    Vector<T> v[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) v[n] = loaded(load(source + n * kL));
#pragma GCC unroll 4
    for (int r = Low; r <= High; ++r) {
      const T *weight = weights + (High - r) * row;
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n)
        acc[r][n] = multiply_add(kWeight > 1 ? load(weight + n * kL) : splat(*weight), v[n], acc[r][n]);
    }
  }
}

// Lines are taken in order, so that a row's sum does not depend on R.
template <Taps kind, int R, int N, class T>
POLYCONV_NOINLINE void any_tile(const PlaneTaps<T> &f, int64_t x, const PlaneStore<T> &to) {
  Vector<T> acc[R][N] = {};
  fetch_below<T, R, N>(to, 0);
  if constexpr (R > 1) add_line<0, 0, kind>(f, 0, x, acc);
  if constexpr (R > 2) add_line<0, 1, kind>(f, 1, x, acc);
  if constexpr (R > 3) add_line<0, 2, kind>(f, 2, x, acc);
  for (int64_t y = R - 1; y < f.rows; ++y) add_line<0, R - 1, kind>(f, y, x, acc);
  if constexpr (R > 1) add_line<1, R - 1, kind>(f, f.rows, x, acc);
  if constexpr (R > 2) add_line<2, R - 1, kind>(f, f.rows + 1, x, acc);
  if constexpr (R > 3) add_line<3, R - 1, kind>(f, f.rows + 2, x, acc);
  store_plane(to, to.to, acc);
}

// Vectors of a tile of R rows: 16 sums, or 8.
template <int R>
constexpr int kAnyVectors = R == kPlaneRows ? kPlaneVectors : 2 * kPlaneVectors;

// The tile of n vectors: kAnyVectors, 2 or 1; of kPlanePeriod where the weights are periodic.
template <Taps kind, int R, class T>
POLYCONV_INLINE void any_tile_of(int64_t n, const PlaneTaps<T> &f, int64_t x, const PlaneStore<T> &to) {
  if constexpr (kind == Taps::kPeriodic) {
    any_tile<kind, R, kPlanePeriod>(f, x, to);
  } else {
    if (n == kAnyVectors<R>) return any_tile<kind, R, kAnyVectors<R>>(f, x, to);
    if (n == 2) return any_tile<kind, R, 2>(f, x, to);
    any_tile<kind, R, 1>(f, x, to);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
