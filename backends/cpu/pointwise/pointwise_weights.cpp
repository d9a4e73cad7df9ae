// pointwise_weights.cpp - weight gradients of 1x1 layers, and of windows as large as the image, in f32 and f64 whose
// channels lie side by side: a product whose factors are read where they lie and whose result goes straight to the
// weights.
//
// Floor: the multiply-adds at the FMA rate; of one pixel, storing the weights once.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/pointwise/weights_plan.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kPointRows = kManyRegisters ? 14 : 6;
// Pixels from which on a tile's results, filters apart from each other, are fetched before they are stored.
constexpr int kPointFetched = 16;

template <class T>
struct PointTile {
  const T *input, *gradient; // moved to the tile's channels
  const PointRun *runs, *end;
  int64_t input_step, gradient_step;
  T *weights;
  int64_t filter;
  int lanes;  // of the last vector
  bool first; // nothing has been summed
};

// The last vector of a panel may be a part of one.
template <class T, bool kPartial>
POLYCONV_INLINE Vector<T> load_last(const T *p, int lanes) {
  return kPartial ? load_partial(p, lanes) : load(p);
}

template <class T, int U, int N, bool kPartial>
POLYCONV_NOINLINE void point_tile(const PointTile<T> &t) {
  typedef Vector<T> V;
  constexpr int kL = kLanes<T>, kLast = N - 1;
  V sums[U][N];
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      const T *from = t.weights + u * t.filter + n * kL;
      sums[u][n] = t.first ? V{} : n == kLast ? load_last<T, kPartial>(from, t.lanes) : load(from);
    }
  if constexpr (!kManyRegisters)
    if (t.first && t.runs < t.end && t.runs->count >= kPointFetched) fetch_rows<U, N>(t.weights, t.filter);
  for (const PointRun *run = t.runs; run < t.end; ++run) {
    const T *input = t.input + run->input, *gradient = t.gradient + run->gradient;
    for (int64_t x = run->count; x > 0; --x, input += t.input_step, gradient += t.gradient_step) {
      V vectors[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n)
        vectors[n] = loaded(n == kLast ? load_last<T, kPartial>(input + n * kL, t.lanes) : load(input + n * kL));
      add_products([&](int u) { return splat(gradient[u]); }, vectors, sums);
    }
  }
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      T *to = t.weights + u * t.filter + n * kL;
      if (kPartial && n == kLast)
        store_partial(to, sums[u][n], t.lanes);
      else
        store(to, sums[u][n]);
    }
}

// So many rows as tiles of the next smaller number of rows.
template <class T, int N, bool kPartial, int U = kPointRows>
POLYCONV_INLINE void point_tiles(int64_t rows, PointTile<T> t) {
  for (; rows >= U; rows -= U, t.gradient += U, t.weights += U * t.filter) point_tile<T, U, N, kPartial>(t);
  constexpr int kLess = U > 10 ? 8 : U > 4 ? 4 : U / 2;
  if constexpr (U > 1)
    if (rows > 0) point_tiles<T, N, kPartial, kLess>(rows, t);
}

// One panel by some rows.
template <class T>
POLYCONV_INLINE void point_panel(int64_t inputs, int64_t rows, PointTile<T> t) {
  constexpr int kL = kLanes<T>;
  if (inputs >= 2 * kL) return point_tiles<T, 2, false>(rows, t);
  t.lanes = static_cast<int>(inputs > kL ? inputs - kL : inputs);
  if (inputs > kL) return point_tiles<T, 2, true>(rows, t);
  if (inputs == kL) return point_tiles<T, 1, false>(rows, t);
  point_tiles<T, 1, true>(rows, t);
}

// Tiles of a few rows by all of the share's panels: what one block of pixels adds.
template <class T>
POLYCONV_NOINLINE void point_share(const PointWeightsPlan &p, const WeightsRun &r, const GridShare &share) {
  constexpr int64_t kPanel = 2 * kLanes<T>;
  const int64_t row = share.first_unit * p.rows, end = share.last_unit * p.rows;
  const int64_t rows = (end < p.outputs ? end : p.outputs) - row;
  const int64_t last = share.last_panel * kPanel, inputs = last < p.inputs ? last : p.inputs;
  PointTile<T> t = {};
  t.input_step = p.input_step, t.gradient_step = p.gradient_step, t.filter = p.filter;
  t.gradient = static_cast<const T *>(r.gradient) + p.gradient_at + row;
  for (int64_t block = 0; block < p.block_count; ++block) {
    t.runs = p.runs + p.blocks[block], t.end = p.runs + p.blocks[block + 1];
    t.first = block == 0;
    for (int64_t c = share.first_panel * kPanel; c < inputs; c += kPanel) {
      t.input = static_cast<const T *>(r.input) + p.input_at + c;
      t.weights = static_cast<T *>(r.weights) + p.weights_at + row * p.filter + c;
      point_panel(inputs - c, rows, t);
    }
  }
}

void point_weights_task(const PointWeightsPlan &plan, const WeightsRun &run, const GridShare &share) {
  if (plan.type == POLYCONV_F64)
    point_share<double>(plan, run, share);
  else
    point_share<float>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
