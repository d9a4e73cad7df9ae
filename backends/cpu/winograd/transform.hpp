// transform.hpp - Winograd's transforms of a line of a tile, a vector of channels at a time. The matrices are those of
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): the points 0, 1, -1, infinity for M = 2,
// and 2, -2 too for M = 4. The larger points are why M = 4 loses more bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// v = B' v for M + 2 inputs.
POLYCONV_INLINE void transform_inputs(F32 (&v)[4]) {
  const F32 first = v[0] - v[2], last = v[1] - v[3], sum = v[1] + v[2], difference = v[2] - v[1];
  v[0] = first, v[1] = sum, v[2] = difference, v[3] = last;
}
POLYCONV_INLINE void transform_inputs(F32 (&v)[6]) {
  const F32 four = splat(4.0f), five = splat(-5.0f), two = splat(2.0f);
  const F32 first = multiply_add(v[0], four, multiply_add(v[2], five, v[4]));
  const F32 last = multiply_add(v[1], four, multiply_add(v[3], five, v[5]));
  const F32 even = multiply_add(v[2], -four, v[4]), odd = multiply_add(v[1], -four, v[3]);
  const F32 wide = v[4] - v[2], narrow = v[3] - v[1];
  v[0] = first, v[1] = even + odd, v[2] = even - odd;
  v[3] = multiply_add(narrow, two, wide), v[4] = multiply_add(narrow, -two, wide), v[5] = last;
}

// The M results A' v, the first elements of v.
POLYCONV_INLINE void transform_products(F32 (&v)[4]) {
  const F32 first = v[0] + v[1] + v[2], second = v[1] - v[2] - v[3];
  v[0] = first, v[1] = second;
}
POLYCONV_INLINE void transform_products(F32 (&v)[6]) {
  const F32 two = splat(2.0f), four = splat(4.0f), eight = splat(8.0f);
  const F32 sum = v[1] + v[2], difference = v[1] - v[2], far_sum = v[3] + v[4], far_difference = v[3] - v[4];
  v[0] = v[0] + sum + far_sum;
  v[1] = multiply_add(far_difference, two, difference);
  v[2] = multiply_add(far_sum, four, sum);
  v[3] = multiply_add(far_difference, eight, difference) + v[5];
}

// Rows of a tile `row` elements apart with columns `column` apart, transformed both ways; element (y, x) goes to
// out + (y * T + x) * step.
template <int T>
POLYCONV_INLINE void transform_tile(const float *in, int64_t row, int64_t column, float *out, int64_t step) {
  F32 half[T][T];
#pragma GCC unroll 6
  for (int x = 0; x < T; ++x) {
    F32 v[T];
#pragma GCC unroll 6
    for (int y = 0; y < T; ++y) v[y] = load(in + y * row + x * column);
    transform_inputs(v);
#pragma GCC unroll 6
    for (int y = 0; y < T; ++y) half[y][x] = v[y];
  }
#pragma GCC unroll 6
  for (int y = 0; y < T; ++y) {
    transform_inputs(half[y]);
#pragma GCC unroll 6
    for (int x = 0; x < T; ++x) store(out + (y * T + x) * step, half[y][x]);
  }
}

// The way back: products `step` apart become T - 2 rows, `row` apart, of T - 2 results.
template <int T>
POLYCONV_INLINE void transform_back(const float *in, int64_t step, float *out, int64_t row) {
  constexpr int M = T - 2;
  F32 half[M][T];
#pragma GCC unroll 6
  for (int x = 0; x < T; ++x) {
    F32 v[T];
#pragma GCC unroll 6
    for (int y = 0; y < T; ++y) v[y] = load(in + (y * T + x) * step);
    transform_products(v);
#pragma GCC unroll 6
    for (int y = 0; y < M; ++y) half[y][x] = v[y];
  }
#pragma GCC unroll 6
  for (int y = 0; y < M; ++y) {
    transform_products(half[y]);
#pragma GCC unroll 6
    for (int x = 0; x < M; ++x) store(out + y * row + x * kF32Lanes, half[y][x]);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
