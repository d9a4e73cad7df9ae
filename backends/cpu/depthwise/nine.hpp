// nine.hpp - 3 x 3 depthwise convolution with channels side by side where there are 16 registers: the nine weights of a
// vector of channels stay in registers for some rows of results, and every product has its other operand in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/tile.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// A vector of channels of some rows and columns of results. Padding is left out: rows that do not exist, and of the
// first and last column the taps beside the input, if `left` and `right` say that these are missing.
struct DepthwiseNine {
  const char *source;    // what the first tap of the first result reads, or would read
  int64_t row, pixel;    // bytes from one row of the source, and from one pixel, to the next
  int64_t first, height; // row of the source that the first row of results reads first; rows that there are
  const float *weights;
  int64_t tap; // elements from one tap's weights to the next
  const float *bias;
  char *to;
  int64_t to_row, to_column; // bytes
  int64_t rows, columns;     // of results
  bool left, right, stream;
  bool relu;            // results are held from 0 on
  const float *highest; // and to this, NULL: not
};

// One, three, five and seven times a distance in bytes, by which an operand in memory has the address of any column of
// a tile; gcc would keep, spill and advance a pointer to each.
struct DepthwiseApart {
  int64_t one, three, five, seven;
};
POLYCONV_INLINE DepthwiseApart apart_by(int64_t one) {
  return {one, 3 * one, 5 * one, 7 * one};
}

// sum += b times the vector in memory `Count` times that distance behind p. It stays there: gcc would load what other
// products read too, and spill it.
template <int Count>
POLYCONV_INLINE void add_product_at(const char *p, const DepthwiseApart &apart, F32 b, F32 &sum) {
  constexpr int kOf = Count == 0 ? 1 : Count % 7 == 0 ? 7 : Count % 5 == 0 ? 5 : Count % 3 == 0 ? 3 : 1;
  const int64_t index = kOf == 7 ? apart.seven : kOf == 5 ? apart.five : kOf == 3 ? apart.three : apart.one;
#if defined(__FMA__) && !defined(__AVX512F__)
  typedef char Reach[1 << 30]; // says that memory behind p is read, wherever
  if constexpr (Count == 0)
    __asm__("vfmadd231ps (%2), %1, %0" : "+x"(sum) : "x"(b), "r"(p), "m"(*reinterpret_cast<const Reach *>(p)));
  else
    __asm__("vfmadd231ps (%2,%3,%c4), %1, %0"
            : "+x"(sum)
            : "x"(b), "r"(p), "r"(index), "i"(Count / kOf), "m"(*reinterpret_cast<const Reach *>(p)));
#else
  sum = multiply_add(load(reinterpret_cast<const float *>(p + Count / kOf * index)), b, sum);
#endif
}

// Where the tiles of a row of results read and write next; what they have in common.
struct NineRow {
  const char *source[3];
  char *to;
  bool exists[3], stream, relu;
  const float *highest;
  DepthwiseApart pixels, results;
};

// What a tile lacks: the first column its first tap, the last column its last one.
enum NineEnds : int32_t { kInner = 0, kLeft = 1, kRight = 2 };

template <int I, int K, int P, int Step, int Ends, int J = 0>
POLYCONV_INLINE void add_nine(const NineRow &row, const F32 (&w)[9], F32 (&acc)[P]) {
  if constexpr (J < P) {
    constexpr bool lacks = ((Ends & kLeft) && J == 0 && K == 0) || ((Ends & kRight) && J == P - 1 && K == 2);
    if constexpr (!lacks) add_product_at<J * Step + K>(row.source[I], row.pixels, w[3 * I + K], acc[J]);
    add_nine<I, K, P, Step, Ends, J + 1>(row, w, acc);
  }
}
template <int I, int P, int Step, int Ends>
POLYCONV_INLINE void add_nine_row(const NineRow &row, const F32 (&w)[9], F32 (&acc)[P]) {
  if (!row.exists[I]) return;
  add_nine<I, 0, P, Step, Ends>(row, w, acc);
  add_nine<I, 1, P, Step, Ends>(row, w, acc);
  add_nine<I, 2, P, Step, Ends>(row, w, acc);
}

POLYCONV_INLINE float *nine_result(const NineRow &row, int j) {
  const DepthwiseApart &r = row.results;
  const int64_t apart = j % 3 == 0 ? r.three * (j / 3) : j == 5 ? r.five : r.one * j;
  return reinterpret_cast<float *>(row.to + apart);
}

// P columns of a row of results.
template <int P, int Step, int Ends>
POLYCONV_INLINE void nine_tile(NineRow &row, const F32 (&w)[9], const F32 &start) {
  F32 acc[P];
#pragma GCC unroll 8
  for (int j = 0; j < P; ++j) acc[j] = start;
  add_nine_row<0, P, Step, Ends>(row, w, acc);
  add_nine_row<1, P, Step, Ends>(row, w, acc);
  add_nine_row<2, P, Step, Ends>(row, w, acc);
  if (row.relu) {
    const F32 zero = {}, highest = row.highest ? splat(*row.highest) : zero;
#pragma GCC unroll 8
    for (int j = 0; j < P; ++j) acc[j] = acc[j] < zero ? zero : acc[j]; // NaN stays
    if (row.highest)
#pragma GCC unroll 8
      for (int j = 0; j < P; ++j) acc[j] = acc[j] > highest ? highest : acc[j];
  }
#pragma GCC unroll 8
  for (int j = 0; j < P; ++j)
    if (row.stream)
      store_past_cache(nine_result(row, j), acc[j]);
    else
      store(nine_result(row, j), acc[j]);
  row.to += P * row.results.one;
#pragma GCC unroll 3
  for (const char *&source : row.source) source += P * Step * row.pixels.one;
}

// Tiles of at most P columns, of nearly equal size.
template <int P, int Step>
POLYCONV_NOINLINE void depthwise_nine(const DepthwiseNine &given) {
  constexpr int kLess = P > 1 ? P - 1 : 1;
  const DepthwiseNine n = given; // what a reference leads to would be loaded anew after every store
  F32 w[9];
#pragma GCC unroll 9
  for (int i = 0; i < 9; ++i) w[i] = loaded(load(n.weights + i * n.tap));
  const F32 start = n.bias ? load(n.bias) : F32{};
  const int64_t tiles = (n.columns + P - 1) / P, narrow = tiles * P - n.columns, wide = tiles - narrow;
  const bool one = tiles == 1, both = one && n.left && n.right;
  const bool left = n.left && !both, right = n.right && !both && !(one && n.left);
  const int64_t inner = wide - (left || both) - (right && !narrow), less = narrow - (right && narrow > 0);
  NineRow row = {{}, nullptr, {}, n.stream, n.relu, n.highest, apart_by(n.pixel), apart_by(n.to_column)};
  for (int64_t y = 0; y < n.rows; ++y) {
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      const int64_t at = y * Step + i;
      row.source[i] = n.source + at * n.row;
      row.exists[i] = n.first + at >= 0 && n.first + at < n.height;
    }
    row.to = n.to + y * n.to_row;
    if (both) nine_tile<P, Step, kLeft | kRight>(row, w, start);
    if (left) nine_tile<P, Step, kLeft>(row, w, start);
    for (int64_t i = 0; i < inner; ++i) nine_tile<P, Step, kInner>(row, w, start);
    if constexpr (P > 1)
      for (int64_t i = 0; i < less; ++i) nine_tile<kLess, Step, kInner>(row, w, start);
    if (!right) continue;
    if (P > 1 && narrow)
      nine_tile<kLess, Step, kRight>(row, w, start);
    else
      nine_tile<P, Step, kRight>(row, w, start);
  }
}

// The results once more, which are in the cache: no register was left for what other activations need.
POLYCONV_NOINLINE void activate_nine(const DepthwiseNine &n, int32_t activation, float alpha) {
  for (int64_t y = 0; y < n.rows; ++y)
    for (int64_t x = 0; x < n.columns; ++x) {
      float *p = reinterpret_cast<float *>(n.to + y * n.to_row + x * n.to_column);
      store(p, activate(load(p), activation, splat(alpha)));
    }
}

// Tiles of nearly equal size.
template <int Most, int Step>
POLYCONV_INLINE void depthwise_nine_of(const DepthwiseNine &n) {
  const int64_t tiles = (n.columns + Most - 1) / Most;
  with_size<Most>((n.columns + tiles - 1) / tiles, [&](auto p) { depthwise_nine<p.value, Step>(n); });
}

} // namespace polyconv::cpu::POLYCONV_ISA
