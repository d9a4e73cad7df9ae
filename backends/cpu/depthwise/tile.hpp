// tile.hpp - register tiles of depthwise convolution with channels side by side: R rows by P columns of results for one
// vector of channels after another. Floor: R * P * K * K multiply-adds against one load, and one of its pointer, for
// each of the (R - 1 + K) * (P - 1 + K) source pixels (stride 1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/plan.hpp"
#include "cpu/direct/load.hpp"
#include "cpu/finish.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Where a tile's sums go: results, finished with a bias and a quick activation, or a buffer.
template <class T>
struct DepthwiseStore {
  T *to;                          // of the first row, column and channel of the tile
  int64_t row, column;            // elements between them
  int64_t rows, columns;          // that exist
  const T *bias;                  // of the first channel, or NULL
  const polyconv_epilogue *rules; // NULL: sums as they are
  bool stream;                    // past the cache
};

template <class From, class T>
struct DepthwiseTile {
  const From *const *pixels; // [line][line_pixels], of the first column
  int64_t line_pixels;
  const T *weights; // of the first tap
  int64_t row_stride;
  int32_t zero_point;
  // The source of the tile below, brought into the cache meanwhile; NULL where there is none or no need.
  const From *ahead;
  int64_t ahead_row; // elements between its rows
};

// The c-th of the channels' share of it: in the order of memory, which the processor's own prefetchers learn from.
template <class From, class T, int Rows, int Columns>
POLYCONV_INLINE void fetch_ahead(const DepthwiseTile<From, T> &tile, int64_t c) {
  const From *row = tile.ahead + c * Columns;
#pragma GCC unroll 4
  for (int y = 0; y < Rows; ++y, row += tile.ahead_row)
#pragma GCC unroll 16
    for (int x = 0; x < Columns; ++x) __builtin_prefetch(row + x * kLanes<T>, 0, 2);
}

template <class T, int P>
POLYCONV_INLINE void store_tile_row(const DepthwiseStore<T> &to, int64_t r, int64_t c, int count, Vector<T> (&acc)[P]) {
  if (r >= to.rows) return;
  if (to.rules) {
    Vector<T> bias = {};
    if (to.bias) bias = count == kLanes<T> ? load(to.bias + c) : load_partial(to.bias + c, count);
    const Vector<T> alpha = splat(static_cast<T>(to.rules->activation_alpha));
#pragma GCC unroll 8
    for (int j = 0; j < P; ++j) acc[j] = activate(to.bias ? acc[j] + bias : acc[j], to.rules->activation, alpha);
  }
  T *p = to.to + r * to.row + c;
#pragma GCC unroll 8
  for (int j = 0; j < P; ++j, p += to.column) {
    if (j >= to.columns) return;
    if (count < kLanes<T>)
      store_partial(p, acc[j], count);
    else if (to.stream)
      store_past_cache(p, acc[j]);
    else
      store(p, acc[j]);
  }
}

// Channels [c, end), at least a vector of them, K x K taps at stride Step. The last vector may overlap the one before.
template <class From, class T, int K, int Step, int P>
POLYCONV_NOINLINE void depthwise_square(const DepthwiseTile<From, T> &tile, int64_t c, int64_t end,
                                        const DepthwiseStore<T> &to) {
  constexpr int kR = kDepthwiseRows, kL = kLanes<T>;
  const Load<From, T> convert(tile.zero_point);
  while (c < end) {
    if (c > end - kL) c = end - kL;
    if (tile.ahead) fetch_ahead<From, T, kR * Step, P * Step>(tile, c);
    Vector<T> acc[kR][P] = {};
#pragma GCC unroll 32
    for (int y = 0; y < (kR - 1) * Step + K; ++y) {
      const From *const *line = tile.pixels + y * tile.line_pixels;
#pragma GCC unroll 32
      for (int x = 0; x < (P - 1) * Step + K; ++x) {
        const Vector<T> v = convert.full(line[x] + c);
#pragma GCC unroll 8
        for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
          for (int j = 0; j < P; ++j) {
            const int ky = y - r * Step, kx = x - j * Step;
            if (ky < 0 || ky >= K || kx < 0 || kx >= K) continue;
            acc[r][j] = multiply_add(v, load(tile.weights + (ky * K + kx) * tile.row_stride + c), acc[r][j]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) store_tile_row<T, P>(to, r, c, kL, acc[r]);
    c += kL;
  }
}

// Channels [c, end) of one row, any kernel: `lines` rows of taps, each of `taps` columns `dilation` apart.
template <class From, class T, int P>
POLYCONV_NOINLINE void depthwise_any(const DepthwiseTile<From, T> &tile, int64_t lines, const Axis &w, int64_t c,
                                     int64_t end, const DepthwiseStore<T> &to) {
  constexpr int kL = kLanes<T>;
  const Load<From, T> convert(tile.zero_point);
  for (; c < end; c += kL) {
    const int count = end - c < kL ? static_cast<int>(end - c) : kL;
    const T *weights = tile.weights + c;
    Vector<T> acc[P] = {};
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t k = 0; k < w.taps; ++k, weights += tile.row_stride) {
        const From *const *pixel = tile.pixels + line * tile.line_pixels + k * w.dilation;
        const Vector<T> weight = load(weights);
#pragma GCC unroll 8
        for (int j = 0; j < P; ++j) {
          const From *p = pixel[j * w.step] + c;
          acc[j] = multiply_add(count == kL ? convert.full(p) : convert.partial(p, count), weight, acc[j]);
        }
      }
    store_tile_row<T, P>(to, 0, c, count, acc);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
