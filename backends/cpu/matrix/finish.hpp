// finish.hpp - from the matrix kernel's sums to results. While one tile is multiplied, the results of the tile before
// are made: the units for tiles and those for vectors work at the same time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/common/transpose.hpp"
#include "cpu/matrix/multiply.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Output lines [line, line + lines) of one depth and image; flat: positions [line, line + lines).
struct MatrixBlock {
  int64_t image, depth, line, lines;
};

// Output channels of a panel, of the result.
struct MatrixChannels {
  int64_t first, count;
};

// body(first position, positions, row) for what positions [first, first + count) of the block are of the output.
template <class Body>
POLYCONV_INLINE void for_rows(const MatrixPlan &p, const MatrixBlock &b, int64_t first, int64_t count, int64_t k,
                              const Body &body) {
  if (p.flat) return body(0, count, Row{b.image, k, 0, 0, b.line + first, 1});
  int64_t line = first / p.line_positions, w = first % p.line_positions;
  for (int64_t i = 0; i < count; w = 0, ++line) {
    const int64_t inside = p.columns - w, rest = p.line_positions - w;
    const int64_t wanted = inside < count - i ? inside : count - i;
    if (wanted > 0) body(i, wanted, Row{b.image, k, b.depth, b.line + line, w, 1});
    i += rest;
  }
}

// Stream: past the cache, from an aligned address on.
template <bool Stream, class T>
POLYCONV_INLINE void store_to(T *p, Vector<T> v) {
  if constexpr (Stream)
    store_past_cache(p, v);
  else
    store(p, v);
}

// Two vectors of results side by side.
template <bool Stream>
POLYCONV_INLINE void store_two(float *p, F32 a, F32 b) {
  store_to<Stream>(p, a);
  store_to<Stream>(p + kF32Lanes, b);
}
template <bool>
POLYCONV_INLINE void store_two(f16 *p, F32 a, F32 b) {
  store_f32(p, a);
  store_f32(p + kF32Lanes, b);
}
template <bool Stream>
POLYCONV_INLINE void store_two(bf16 *p, F32 a, F32 b) {
#if defined(__AVX512BF16__)
  const __m512bh both = _mm512_cvtne2ps_pbh(bits_as<__m512>(b), bits_as<__m512>(a));
  store_to<Stream>(reinterpret_cast<uint32_t *>(p), bits_as<U32>(both));
#else
  store_f32(p, a);
  store_f32(p + kF32Lanes, b);
#endif
}

// Two vectors of sums, side by side, become results, with at most a bias and relu.
template <bool Stream, class T>
POLYCONV_INLINE void finish_two(T *to, const float *sums, bool has_bias, F32 bias0, F32 bias1, bool relu) {
  F32 x0 = load(sums), x1 = load(sums + kF32Lanes);
  if (has_bias) x0 += bias0, x1 += bias1;                               // x + 0 would make 0 of -0
  if (relu) x0 = x0 < F32{} ? F32{} : x0, x1 = x1 < F32{} ? F32{} : x1; // NaN stays
  store_two<Stream>(to, x0, x1);
}

// Whole panels of floats with at most a bias and relu.
template <class T, bool Stream>
POLYCONV_INLINE void finish_panel_as(const Epilogue &e, const float *sums, int64_t rows, const Row &row) {
  T *p = static_cast<T *>(e.output) + row_offset(e.result, row);
  const int64_t step = e.result.stride[4];
  const bool relu = e.rules.activation == POLYCONV_ACT_RELU;
  const float *bias = e.bias ? static_cast<const float *>(e.bias) + row.k : nullptr;
  for (int c = 0; c < kMatrixPanel; c += 2 * kF32Lanes) {
    const F32 b0 = bias ? load(bias + c) : F32{}, b1 = bias ? load(bias + c + kF32Lanes) : F32{};
    const float *s = sums + c;
    T *to = p + c;
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows; ++i, s += kMatrixPanel, to += step)
      finish_two<Stream>(to, s, bias != nullptr, b0, b1, relu);
  }
}

// Whole panels of s32 with at most a bias, modulo 2^32.
template <bool Stream>
POLYCONV_INLINE void finish_panel(const Epilogue &e, const int32_t *sums, int64_t rows, const Row &row) {
  int32_t *p = static_cast<int32_t *>(e.output) + row_offset(e.result, row);
  const int64_t step = e.result.stride[4];
  const int32_t *bias = e.bias ? static_cast<const int32_t *>(e.bias) + row.k : nullptr;
  for (int c = 0; c < kMatrixPanel; c += kLanes<int32_t>) {
    const U32 b = bias ? bits_as<U32>(load(bias + c)) : U32{};
    const int32_t *s = sums + c;
    int32_t *to = p + c;
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows; ++i, s += kMatrixPanel, to += step)
      store_to<Stream>(to, bits_as<S32>(bits_as<U32>(load(s)) + b));
  }
}

template <bool Stream>
POLYCONV_INLINE void finish_panel(const Epilogue &e, const float *sums, int64_t rows, const Row &row) {
  switch (e.result.type) {
    case POLYCONV_F32: return finish_panel_as<float, Stream>(e, sums, rows, row);
    case POLYCONV_F16: return finish_panel_as<f16, Stream>(e, sums, rows, row);
    default: return finish_panel_as<bf16, Stream>(e, sums, rows, row);
  }
}

// Finishes `rows` neighbours along W of `channels` channels, whose sums lie with channels side by side. One function
// for all products of a type of sums, whatever these are of.
template <class Sum>
POLYCONV_NOINLINE void finish_positions(const MatrixPlan &p, const Epilogue &e, const Sum *sums, int64_t rows,
                                        int64_t channels, Row row, bool stream) {
  if (p.quick && channels == kMatrixPanel)
    return stream ? finish_panel<true>(e, sums, rows, row) : finish_panel<false>(e, sums, rows, row);
  if (!p.along_w) return finish_rows(e, sums, kMatrixPanel, rows, channels, row);
  constexpr int kL = kLanes<Sum>;
  alignas(64) Sum turned[kMatrixPanel * kMatrixPositions];
  for (int64_t c = 0; c < channels; c += kL)
    for (int64_t i = 0; i < rows; i += kL) {
      Vector<Sum> square[kL];
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane)
        square[lane] = i + lane < rows ? load(sums + (i + lane) * kMatrixPanel + c) : Vector<Sum>{};
      transpose<Sum>(square);
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane) store(turned + (c + lane) * kMatrixPositions + i, square[lane]);
    }
  row.axis = 4;
  finish_rows(e, turned, kMatrixPositions, channels, rows, row);
}

POLYCONV_INLINE bool is_zero(F32 v) {
  float sum = 0;
  for (int lane = 0; lane < kF32Lanes; ++lane) sum += v[lane];
  return sum == 0.0f;
}

// Whether sums are finite; those of parts may be NaN where an infinite factor has NaN or 0 in its other parts.
POLYCONV_INLINE bool all_finite(const float *sums, int64_t rows) {
  F32 even = {}, odd = {}; // 0 times what is finite is 0, else NaN
  for (int64_t i = 0; i < rows * kMatrixPanel; i += 2 * kF32Lanes) {
    even = multiply_add(load(sums + i), F32{}, even);
    odd = multiply_add(load(sums + i + kF32Lanes), F32{}, odd);
  }
  return is_zero(even + odd);
}

// Puts what the first parts alone give where sums are not finite. Takes all registers.
template <class P>
POLYCONV_NOINLINE void mend(const MatrixPlan &p, MatrixTile tile, bool two_positions, bool two_channels) {
  alignas(64) float first[kMatrixPositions * kMatrixPanel];
  float *sums = static_cast<float *>(tile.sums);
  tile.sums = first, tile.sums_row = 2 * kMatrixRowBytes;
  Tiles tiles;
  MatrixHeld held = {};
  NothingBeside none;
  multiply_of<FirstProducts<P>>(two_positions, two_channels, p, tile, tiles, held, none);
  store_all(tiles, held);
  const int rows = two_positions ? kMatrixPositions : kMatrixRows;
  for (int i = 0; i < rows * kMatrixPanel; i += kF32Lanes) {
    const F32 sum = load(sums + i);
    const S32 odd = (bits_as<U32>(sum) & 0x7f800000u) == 0x7f800000u;
    store(sums + i, odd ? load(first + i) : sum);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
