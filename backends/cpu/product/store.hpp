// store.hpp - the end of weight gradients: the splits' sums of a wide panel added in order, then squares of sums turned
// into weights, in the order in which these lie in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/product/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Adds n sums of every split into those of the first; splits are `apart` elements from each other.
template <class T>
POLYCONV_INLINE void add_splits(int64_t splits, int64_t apart, int64_t n, T *sums) {
  constexpr int64_t kChunk = 512; // stays in the L1 cache
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = n - begin < kChunk ? n : begin + kChunk;
    for (int64_t split = 1; split < splits; ++split)
      for (int64_t i = begin; i < end; i += kLanes<T>) store(sums + i, load(sums + i) + load(sums + split * apart + i));
  }
}

// Up to a vector of weights of one output channel, from `to` on.
template <class T>
POLYCONV_INLINE void store_some(int32_t type, void *weights, int64_t to, const ProductColumn *columns, int count,
                                Vector<T> v) {
  const bool side_by_side = columns[count - 1].weight - columns[0].weight == count - 1;
  if (side_by_side && type == (sizeof(T) == 8 ? POLYCONV_F64 : POLYCONV_F32)) {
    T *place = static_cast<T *>(weights) + to + columns[0].weight;
    return count == kLanes<T> ? store(place, v) : store_partial(place, v, count);
  }
  T values[2 * kLanes<T>] = {}; // scatter reads whole vectors, from any of the first lanes on
  store(values, v);
  if (side_by_side) return scatter_typed(type, weights, to + columns[0].weight, 1, count, values);
  for (int i = 0; i < count; ++i) scatter_typed(type, weights, to + columns[i].weight, 1, 1, values + i);
}

// The weights of up to a vector of output channels; `sums` is where their lanes begin.
template <class T>
POLYCONV_NOINLINE void store_lanes(const polyconv_tensor &w, const ProductColumn *table, int64_t size, const T *sums,
                                   int lanes, void *weights, int64_t to) {
  constexpr int kL = kLanes<T>;
  for (int64_t i = 0; i < size; i += kL) {
    const int count = size - i < kL ? static_cast<int>(size - i) : kL;
    Vector<T> square[kL];
#pragma GCC unroll 16
    for (int j = 0; j < kL; ++j) square[j] = j < count ? load(sums + table[i + j].sum) : Vector<T>{};
    transpose<T>(square);
#pragma GCC unroll 16
    for (int lane = 0; lane < kL; ++lane)
      if (lane < lanes) store_some<T>(w.type, weights, to + lane * w.stride[0], table + i, count, square[lane]);
  }
}

// Ends one wide panel of a piece; `partial` are the sums of the piece's first split.
template <class T>
POLYCONV_NOINLINE void end_product(const ProductPlan &p, const WeightsRun &r, const ProductShare &share, T *partial) {
  const ProductPiece piece = product_piece(p, share.piece);
  const int64_t panel = p.tall_block * p.tile_elements, k = share.wide * p.wide, left = piece.k_count - k;
  T *sums = partial + share.wide * panel;
  add_splits(p.splits, p.sums, panel, sums);
  const int last = piece.c_count < p.tall_block * p.tall ? 1 : 0;
  const polyconv_tensor &w = p.weights;
  for (int64_t lane = 0; lane < p.wide && lane < left; lane += kLanes<T>) {
    const int64_t lanes = left - lane < kLanes<T> ? left - lane : kLanes<T>;
    const int64_t to =
        w.offset + (piece.group * p.group_out + piece.k + k + lane) * w.stride[0] + piece.c * w.stride[1];
    store_lanes(w, p.table[last], p.table_size[last], sums + lane, static_cast<int>(lanes), r.weights, to);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
