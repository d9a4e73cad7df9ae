// transform.hpp - complex Fourier transforms of the columns of a square, a vector of columns at a time: every lane does
// the same, so nothing is shuffled. Real and imaginary parts lie apart.
//
// Forward is Gentleman and Sande's decimation in frequency, radix 4 and one pass of radix 2 where the size is no power
// of 4; it leaves its results in reversed order of digits. Backward is its mirror image, decimation in time, and takes
// them in that order. As the product of two transforms does not mind an order that both have, nothing is ever sorted.
// Floor: 34 additions and multiplications for four complex values a pass, and one load and store of each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/transpose.hpp"
#include "cpu/fft/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

struct Complex {
  F32 re, im;
};

POLYCONV_INLINE Complex operator+(const Complex &a, const Complex &b) {
  return {a.re + b.re, a.im + b.im};
}
POLYCONV_INLINE Complex operator-(const Complex &a, const Complex &b) {
  return {a.re - b.re, a.im - b.im};
}
// a times b, or its conjugate.
template <bool Conjugate>
POLYCONV_INLINE Complex times(const Complex &a, F32 re, F32 im) {
  if (Conjugate) im = -im;
  return {multiply_add(-a.im, im, a.re * re), multiply_add(a.re, im, a.im * re)};
}
// a times -i, or i backwards.
template <bool Back>
POLYCONV_INLINE Complex turned(const Complex &a) {
  return Back ? Complex{-a.im, a.re} : Complex{a.im, -a.re};
}

// Rows of a vector of columns, `stride` apart.
struct FftColumns {
  float *re, *im;
  int64_t stride;
};
POLYCONV_INLINE Complex load_row(const FftColumns &c, int64_t row) {
  return {load(c.re + row * c.stride), load(c.im + row * c.stride)};
}
POLYCONV_INLINE void store_row(const FftColumns &c, int64_t row, const Complex &v) {
  store(c.re + row * c.stride, v.re);
  store(c.im + row * c.stride, v.im);
}

// Four values a quarter of the block apart. Forward their transform and then the roots, backward the roots first.
template <bool Back>
POLYCONV_INLINE void butterfly(const FftColumns &c, int64_t row, int64_t quarter, const float *const (&roots)[3]) {
  Complex v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = load_row(c, row + i * quarter);
    if (Back && i > 0) v[i] = times<true>(v[i], splat(roots[i - 1][0]), splat(roots[i - 1][1]));
  }
  const Complex even = v[0] + v[2], odd = v[0] - v[2], sum = v[1] + v[3], difference = turned<Back>(v[1] - v[3]);
  const Complex out[4] = {even + sum, odd + difference, even - sum, odd - difference};
  store_row(c, row, out[0]);
#pragma GCC unroll 4
  for (int i = 1; i < 4; ++i)
    store_row(c, row + i * quarter,
              Back ? out[i] : times<false>(out[i], splat(roots[i - 1][0]), splat(roots[i - 1][1])));
}

// One pass over blocks of `block` rows.
template <bool Back>
POLYCONV_INLINE void pass_of_four(const FftPlan &p, const FftColumns &c, int64_t block) {
  const int64_t quarter = block / 4, step = p.size / block;
  for (int64_t i = 0; i < quarter; ++i) {
    const float *const roots[3] = {p.roots + 2 * i * step, p.roots + 4 * i * step, p.roots + 6 * i * step};
    for (int64_t first = 0; first < p.size; first += block) butterfly<Back>(c, first + i, quarter, roots);
  }
}

// Pairs of neighbouring rows: the last pass forward, the first backward.
POLYCONV_INLINE void pass_of_two(const FftPlan &p, const FftColumns &c) {
  for (int64_t row = 0; row < p.size; row += 2) {
    const Complex a = load_row(c, row), b = load_row(c, row + 1);
    store_row(c, row, a + b);
    store_row(c, row + 1, a - b);
  }
}

// Transforms all columns of a square.
template <bool Back>
POLYCONV_NOINLINE void transform_columns(const FftPlan &p, float *re, float *im) {
  for (int64_t x = 0; x < p.size; x += kF32Lanes) {
    const FftColumns c = {re + x, im + x, p.pitch};
    if (Back && p.log2 % 2 != 0) pass_of_two(p, c);
    if (Back)
      for (int64_t block = p.log2 % 2 != 0 ? 8 : 4; block <= p.size; block *= 4) pass_of_four<true>(p, c, block);
    else
      for (int64_t block = p.size; block >= 4; block /= 4) pass_of_four<false>(p, c, block);
    if (!Back && p.log2 % 2 != 0) pass_of_two(p, c);
  }
}

// Turns a square in place.
POLYCONV_NOINLINE void transpose_square(float *square, int64_t size, int64_t pitch) {
  constexpr int kL = kF32Lanes;
  for (int64_t y = 0; y < size; y += kL)
    for (int64_t x = 0; x <= y; x += kL) {
      float *a = square + y * pitch + x, *b = square + x * pitch + y;
      F32 first[kL], second[kL];
#pragma GCC unroll 16
      for (int i = 0; i < kL; ++i) first[i] = load(a + i * pitch);
      transpose<float>(first);
      if (x < y) {
#pragma GCC unroll 16
        for (int i = 0; i < kL; ++i) second[i] = load(b + i * pitch);
        transpose<float>(second);
#pragma GCC unroll 16
        for (int i = 0; i < kL; ++i) store(a + i * pitch, second[i]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kL; ++i) store(b + i * pitch, first[i]);
    }
}

// Both axes of a square; what comes out lies transposed.
POLYCONV_INLINE void transform_square(const FftPlan &p, float *re, float *im) {
  transform_columns<false>(p, re, im);
  transpose_square(re, p.size, p.pitch);
  transpose_square(im, p.size, p.pitch);
  transform_columns<false>(p, re, im);
}
POLYCONV_INLINE void transform_square_back(const FftPlan &p, float *re, float *im) {
  transform_columns<true>(p, re, im);
  transpose_square(re, p.size, p.pitch);
  transpose_square(im, p.size, p.pitch);
  transform_columns<true>(p, re, im);
}

} // namespace polyconv::cpu::POLYCONV_ISA
