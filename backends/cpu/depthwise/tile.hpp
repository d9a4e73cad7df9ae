// tile.hpp - the registers of depthwise convolution with channels side by side: one vector of channels at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/store.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

template <class From, class T>
struct DepthwiseTile {
  const From *const *pixels; // [line][line_pixels], of the first column
  int64_t line_pixels;
  const T *weights; // of the first tap
  int64_t row_stride;
  int32_t zero_point;
  // The source of the rows below, brought into the cache meanwhile; NULL where there is none or no need.
  const From *ahead;
  int64_t ahead_row, ahead_column; // elements between its rows and pixels
};

// Where a walk finds what it fetches: the rows that it is the first to read, and as many below them.
template <class From>
struct DepthwiseAhead {
  const From *rows;           // of the first of them, the pixel that the first column begins with
  int64_t row, width, column; // elements from one row to the next, of a row from there on, from one pixel to the next
};

// Fetches the next `Step` vectors of each of the rows below, in the order of memory, which the processor's own
// prefetchers learn from; returns where the ones after these lie.
template <int Rows, int Step, class From, class T>
POLYCONV_INLINE const From *fetch_rows(const DepthwiseTile<From, T> &tile, const From *ahead) {
#pragma GCC unroll 32
  for (int y = 0; y < Rows; ++y)
#pragma GCC unroll 2
    for (int i = 0; i < Step; ++i) __builtin_prefetch(ahead + y * tile.ahead_row + i * kLanes<T>, 0, 2);
  return ahead + Step * kLanes<T>;
}

// Fetches the vector of channels at c of the pixels that `Columns` columns of the `Rows` rows below read first.
template <int Rows, int Columns, class From, class T>
POLYCONV_INLINE void fetch_columns(const DepthwiseTile<From, T> &tile, int64_t c) {
  constexpr int64_t kOfLine = 64 / sizeof(From);
  if (!tile.ahead || (kLanes<T> < kOfLine && c % kOfLine >= kLanes<T>)) return; // a line once
  for (int y = 0; y < Rows; ++y)
#pragma GCC unroll 16
    for (int i = 0; i < Columns; ++i)
      __builtin_prefetch(tile.ahead + y * tile.ahead_row + i * tile.ahead_column + c, 0, 2);
}

// The vector of channels at c of a source pixel.
template <class From, class T>
struct DepthwiseSource {
  static constexpr bool kBegins = true; // a sum begins with its first product
  const Load<From, T> &convert;
  int64_t c;
  POLYCONV_MEMBER Vector<T> operator()(const From *pixel) const { return convert.full(pixel + c); }
};

// Adds source column Q of those that a column of results reads: to its R rows of sums, and to those of the columns of
// results to its right that read it too.
template <int Q, int K, int Step, class Source, class From, class V, int A, int R>
POLYCONV_INLINE void add_column(const Source &source, const From *const *pixels, int64_t line_pixels,
                                const V (&weights)[K * K], V (&acc)[A][R]) {
#pragma GCC unroll 32
  for (int y = 0; y < (R - 1) * Step + K; ++y) {
    const V v = loaded(source(pixels[y * line_pixels]));
#pragma GCC unroll 8
    for (int i = 0; i < A; ++i) {
      const int kx = Q - i * Step;
      if (kx < 0 || kx >= K) continue;
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const int ky = y - r * Step;
        if (ky < 0 || ky >= K) continue;
        const bool first = Source::kBegins && kx == 0 && ky == 0;
        acc[i][r] = multiply_add(v, weights[ky * K + kx], first ? V{} : acc[i][r]);
      }
    }
  }
}
template <int Q, int Last, int K, int Step, class Source, class From, class V, int A, int R>
POLYCONV_INLINE void add_columns(const Source &source, const From *const *pixels, int64_t line_pixels,
                                 const V (&weights)[K * K], V (&acc)[A][R]) {
  if constexpr (Q < Last) {
    add_column<Q, K, Step>(source, pixels + Q, line_pixels, weights, acc);
    add_columns<Q + 1, Last, K, Step>(source, pixels, line_pixels, weights, acc);
  }
}

// The vector of channels at c, R rows of results, K x K taps at stride Step: one column of results after another. Every
// source pixel is loaded once, and the weights stay where they are. Floor: R * K * K multiply-adds a column, for
// Step * ((R - 1) * Step + K) loads and as many of their pointers.
template <class From, class T, int K, int Step, int R>
POLYCONV_NOINLINE void depthwise_sweep(const DepthwiseTile<From, T> &tile, int64_t c, const DepthwiseStore<T> &given) {
  const DepthwiseStore<T> to = given; // what a reference leads to would be loaded anew after every store
  const int64_t line_pixels = tile.line_pixels;
  constexpr int kSums = (K + Step - 1) / Step; // columns of results that read one column
  const Load<From, T> convert(tile.zero_point);
  const DepthwiseSource<From, T> source = {convert, c};
  Vector<T> weights[K * K];
#pragma GCC unroll 64
  for (int i = 0; i < K * K; ++i) weights[i] = loaded(load(tile.weights + i * tile.row_stride + c));
  Vector<T> acc[kSums][R];
  const From *const *pixels = tile.pixels, *ahead = tile.ahead;
  add_columns<0, K - Step, K, Step>(source, pixels, line_pixels, weights, acc);
  for (int64_t x = 0, at = c; x < to.columns; ++x, at += to.column, pixels += Step) {
    if (ahead) ahead = fetch_rows<R * Step, Step>(tile, ahead);
    add_columns<K - Step, K, K, Step>(source, pixels, line_pixels, weights, acc);
    store_vectors<From>(to, at, to.row, to.rows, c, kLanes<T>, acc[0]);
#pragma GCC unroll 8
    for (int i = 0; i + 1 < kSums; ++i)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[i][r] = acc[i + 1][r];
  }
}

// R rows of results, K x K taps at stride Step, channels [c, end), at least a vector of them: all channels of a column
// before the next column, so that tensors beyond the caches are read and written in memory's order, each row of the
// source as a stream of its own. What is fetched early is read soon after, so that a core that has as many misses under
// way as it can waits for them and drops none. The last vector may overlap the one before.
template <class From, class T, int K, int Step, int R>
POLYCONV_NOINLINE void depthwise_walk(const DepthwiseTile<From, T> &tile, const DepthwiseAhead<From> &ahead, int64_t c,
                                      int64_t end, const DepthwiseStore<T> &to) {
  constexpr int kL = kLanes<T>;
  const Load<From, T> convert(tile.zero_point);
  const From *const *pixels = tile.pixels;
  for (int64_t x = 0; x < to.columns; ++x, pixels += Step) {
    int64_t next = (x * ahead.column + c) * Step + kDepthwiseAhead / static_cast<int64_t>(sizeof(From));
    if (next >= ahead.width) next += R * Step * ahead.row - ahead.width;
    const From *fetched = ahead.rows + next;
    for (int64_t channel = c; channel < end; channel += kL, fetched += Step * kL) {
      const int64_t at = channel < end - kL ? channel : end - kL;
#pragma GCC unroll 32
      for (int y = 0; y < R * Step; ++y)
#pragma GCC unroll 2
        for (int i = 0; i < Step; ++i) __builtin_prefetch(fetched + y * ahead.row + i * kL, 0, 2);
      Vector<T> acc[R] = {};
#pragma GCC unroll 8
      for (int kx = 0; kx < K; ++kx)
#pragma GCC unroll 32
        for (int y = 0; y < (R - 1) * Step + K; ++y) {
          const Vector<T> v = loaded(convert.full(pixels[y * tile.line_pixels + kx] + at));
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const int ky = y - r * Step;
            if (ky < 0 || ky >= K) continue;
            acc[r] = multiply_add(v, load(tile.weights + (ky * K + kx) * tile.row_stride + at), acc[r]);
          }
        }
      store_vectors<From>(to, x * to.column + at, to.row, to.rows, at, kL, acc);
    }
  }
}

// The rows of taps that the rows of results of a tile meet, rows of padding left out: source row i of the table belongs
// to those of taps[i].
struct DepthwiseRows {
  const DepthwiseLine *taps;
  int64_t count;
};

// The vector of channels at c of a source pixel, or as many as there are.
template <bool Whole, class From, class T>
struct DepthwisePart {
  const Load<From, T> &convert;
  int64_t c;
  int count;
  POLYCONV_MEMBER Vector<T> operator()(const From *pixel) const {
    return Whole ? convert.full(pixel + c) : convert.partial(pixel + c, count);
  }
};

// What one source row meets: taps of a row for each of R rows of results, of which bit r of `Rows` says that it has
// any.
template <class T, int R>
struct DepthwiseTaps {
  const T *of[R];
  int64_t row_stride;
};

// Adds B neighbouring taps at stride Step to P columns of R rows of results. A source pixel is loaded once for all that
// read it. Floor: R * P * B multiply-adds against (P - 1) * Step + B loads and as many of their pointers, and R * B.
template <int B, int Step, int Rows, class Source, class From, class T, int R, int P>
POLYCONV_INLINE void add_taps(const Source &source, const From *const *pixels, const DepthwiseTaps<T, R> &from,
                              int64_t tap, Vector<T> (&acc)[R][P]) {
  Vector<T> taps[R][B];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b)
      if (Rows >> r & 1) taps[r][b] = loaded(load(from.of[r] + (tap + b) * from.row_stride));
#pragma GCC unroll 32
  for (int i = 0; i < (P - 1) * Step + B; ++i) {
    if (i % Step >= B) continue;
    const Vector<T> v = loaded(source(pixels[tap + i]));
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b)
        if ((Rows >> r & 1) && i >= b && (i - b) % Step == 0 && (i - b) / Step < P)
          acc[r][(i - b) / Step] = multiply_add(v, taps[r][b], acc[r][(i - b) / Step]);
  }
}

// A row of `count` neighbouring taps, kDepthwiseTaps at a time, but never one alone of several.
template <int Step, int Rows, class Source, class From, class T, int R, int P>
POLYCONV_INLINE void add_row(const Source &source, const From *const *pixels, const DepthwiseTaps<T, R> &from,
                             int64_t count, Vector<T> (&acc)[R][P]) {
  int64_t tap = 0;
  for (; count - tap > kDepthwiseTaps + 1; tap += kDepthwiseTaps)
    add_taps<kDepthwiseTaps, Step, Rows>(source, pixels, from, tap, acc);
  switch (count - tap) {
    case 1: return add_taps<1, Step, Rows>(source, pixels, from, tap, acc);
    case 2: return add_taps<2, Step, Rows>(source, pixels, from, tap, acc);
    case 4: return add_taps<4, Step, Rows>(source, pixels, from, tap, acc);
    case 5: add_taps<2, Step, Rows>(source, pixels, from, tap, acc), tap += 2; [[fallthrough]];
    default: return add_taps<3, Step, Rows>(source, pixels, from, tap, acc);
  }
}

// Taps and columns at any distance.
template <class Source, class From, class T, int P>
POLYCONV_INLINE void add_row(const Source &source, const From *const *pixels, const T *weights, int64_t row_stride,
                             const Axis &w, Vector<T> (&acc)[P]) { // of one row of results
  for (int64_t k = 0; k < w.taps; ++k, pixels += w.dilation, weights += row_stride) {
    const Vector<T> weight = load(weights);
#pragma GCC unroll 8
    for (int j = 0; j < P; ++j) acc[j] = multiply_add(source(pixels[j * w.step]), weight, acc[j]);
  }
}

// Channels [c, end) of P columns of one row of results, any kernel; Step 1 or 2 where its taps are neighbours, else 0.
// All channels of a tile before the next, as images of many channels are small. Where there is a vector of channels,
// the last one may overlap the one before; `Whole`: there is.
template <bool Whole, int P, int Step, class From, class T>
POLYCONV_NOINLINE void depthwise_any(const DepthwiseTile<From, T> &tile, const DepthwiseRows &rows, const Axis &w,
                                     int64_t c, int64_t end, const DepthwiseStore<T> &to) {
  constexpr int kL = kLanes<T>;
  const Load<From, T> convert(tile.zero_point);
  const int64_t row = w.taps * tile.row_stride;
  for (; c < end; c += kL) {
    const int64_t at = Whole && end - c < kL ? end - kL : c;
    const int count = Whole ? kL : static_cast<int>(end - c);
    const DepthwisePart<Whole, From, T> source = {convert, at, count};
    if constexpr (Whole && Step > 0) fetch_columns<Step, P * Step>(tile, at);
    Vector<T> acc[1][P] = {};
    for (int64_t i = 0; i < rows.count; ++i) {
      const From *const *pixels = tile.pixels + i * tile.line_pixels;
      const T *weights = tile.weights + rows.taps[i].first * row + at;
      if constexpr (Step > 0)
        add_row<Step, 1>(source, pixels, DepthwiseTaps<T, 1>{{weights}, tile.row_stride}, w.taps, acc);
      else
        add_row(source, pixels, weights, tile.row_stride, w, acc[0]);
    }
    store_vectors<From>(to, at, to.column, to.columns, at, count, acc[0]);
  }
}

// The same of two vectors of channels at a time, for passes of few registers: no tap's weights stay in one, but every
// product is an operand in memory, a pointer serves two of them, and both halves of a line are read together. At least
// two vectors of channels. Floor: 2 * P multiply-adds against as many loads, P pointers and two weights.
template <int P, int Step, class T>
POLYCONV_NOINLINE void depthwise_twins(const DepthwiseTile<T, T> &tile, const DepthwiseRows &rows, const Axis &w,
                                       int64_t c, int64_t end, const DepthwiseStore<T> &given) {
  constexpr int kL = kLanes<T>;
  const DepthwiseStore<T> to = given;
  const int64_t row = w.taps * tile.row_stride;
  for (; c < end; c += 2 * kL) {
    const int64_t at = end - c < 2 * kL ? end - 2 * kL : c;
    fetch_columns<Step, P * Step>(tile, at);
    Vector<T> acc[2][P] = {};
    for (int64_t i = 0; i < rows.count; ++i) {
      const T *const *pixels = tile.pixels + i * tile.line_pixels;
      const T *weights = tile.weights + rows.taps[i].first * row + at;
      for (int64_t k = 0; k < w.taps; ++k, ++pixels, weights += tile.row_stride) {
        const Vector<T> low = loaded(load(weights)), high = loaded(load(weights + kL));
#pragma GCC unroll 8
        for (int j = 0; j < P; ++j) {
          const T *pixel = pixels[j * Step] + at;
          acc[0][j] = multiply_add(load(pixel), low, acc[0][j]);
          acc[1][j] = multiply_add(load(pixel + kL), high, acc[1][j]);
        }
      }
    }
    store_vectors<T>(to, at, to.column, to.columns, at, kL, acc[0]);
    store_vectors<T>(to, at + kL, to.column, to.columns, at + kL, kL, acc[1]);
  }
}

// As depthwise_any, of two rows of results, at least a vector of channels: a source row that both read is loaded once.
// Each sum runs over its taps in the order of depthwise_any.
template <int P, int Step, class From, class T>
POLYCONV_NOINLINE void depthwise_pair(const DepthwiseTile<From, T> &tile, const DepthwiseRows &rows, const Axis &w,
                                      int64_t c, int64_t end, const DepthwiseStore<T> &to) {
  constexpr int kL = kLanes<T>;
  const Load<From, T> convert(tile.zero_point);
  const int64_t row = w.taps * tile.row_stride;
  for (; c < end; c += kL) {
    const int64_t at = end - c < kL ? end - kL : c;
    const DepthwisePart<true, From, T> source = {convert, at, kL};
    fetch_columns<kDepthwisePair * Step, P * Step>(tile, at);
    Vector<T> acc[kDepthwisePair][P] = {};
    for (int64_t i = 0; i < rows.count; ++i) {
      const From *const *pixels = tile.pixels + i * tile.line_pixels;
      const DepthwiseLine taps = rows.taps[i];
      const DepthwiseTaps<T, 2> from = {{tile.weights + taps.first * row + at, tile.weights + taps.second * row + at},
                                        tile.row_stride};
      if (taps.second < 0)
        add_row<Step, 1>(source, pixels, from, w.taps, acc);
      else if (taps.first < 0)
        add_row<Step, 2>(source, pixels, from, w.taps, acc);
      else
        add_row<Step, 3>(source, pixels, from, w.taps, acc);
    }
    store_vectors<From>(to, at, to.column, to.columns, at, kL, acc[0]);
    if (to.rows > 1) store_vectors<From>(to, to.row + at, to.column, to.columns, at, kL, acc[1]);
  }
}

// One tap of P pixels: every channel times its weight. A row of `padding` has none.
template <int P, class From, class T>
POLYCONV_INLINE void scale_pixels(const DepthwiseTile<From, T> &tile, const From *const *pixels, int64_t step,
                                  bool padding, int64_t c, int64_t end, const DepthwiseStore<T> &to, int64_t result) {
  constexpr int kL = kLanes<T>;
  const Load<From, T> convert(tile.zero_point);
  const From *from[P];
#pragma GCC unroll 4
  for (int j = 0; j < P; ++j) from[j] = pixels[j * step];
  for (int64_t channel = c; channel < end; channel += kL) {
    const int64_t at = channel < end - kL ? channel : end - kL;
    const Vector<T> weights = load(tile.weights + at);
    Vector<T> acc[P] = {};
    if (!padding)
#pragma GCC unroll 4
      for (int j = 0; j < P; ++j) acc[j] = multiply_add(convert.full(from[j] + at), weights, acc[j]);
    store_vectors<From>(to, result + at, to.column, P, at, kL, acc);
  }
}

// One tap: a few pixels at a time, so that what a vector costs beside its product is shared, in memory's order.
template <class From, class T>
POLYCONV_NOINLINE void depthwise_scale(const DepthwiseTile<From, T> &tile, int64_t step, bool padding, int64_t c,
                                       int64_t end, const DepthwiseStore<T> &given) {
  constexpr int kPixels = 4;
  const DepthwiseStore<T> to = given;
  int64_t x = 0;
  for (; x + kPixels <= to.columns; x += kPixels)
    scale_pixels<kPixels>(tile, tile.pixels + x * step, step, padding, c, end, to, x * to.column);
  const From *const *const last = tile.pixels + x * step;
  if (x < to.columns)
    with_size<kPixels - 1>(
        to.columns - x, [&](auto p) { scale_pixels<p.value>(tile, last, step, padding, c, end, to, x * to.column); });
}

} // namespace polyconv::cpu::POLYCONV_ISA
