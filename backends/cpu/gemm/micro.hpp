// micro.hpp - the register tile of the matrix product: M rows by N vectors of sums, one multiply-add a step.
//
// Two of the operands' layouts: in "rows" every row of the tile has its own run of k (activations as packed for
// channels along the vectors, or in place); in "panel" the M elements of one k lie side by side (packed weights for
// pixels along the vectors). The other operand is always vectors. Floor: M * N multiply-adds a step against N vector
// loads and M broadcasts; 12 x 2 (AVX-512), 6 x 2 (AVX2 and baseline) keep every sum in a register.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/gemm/plan.hpp"
#include "cpu/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

#if defined(__AVX512F__)
constexpr int kTileRows = 12; // 24 sums: clang spills with more
#else
constexpr int kTileRows = 6;
#endif
constexpr int kTileVectors = 2;
constexpr int kTileThird = kTileRows / 3; // tails: tiles of one and two thirds

// sums += a * b: element by element, and for pairs of 16-bit integers the sum of both products.
POLYCONV_INLINE F32 accumulate(F32 sums, F32 a, F32 b) {
  return multiply_add(a, b, sums);
}
POLYCONV_INLINE F64 accumulate(F64 sums, F64 a, F64 b) {
  return multiply_add(a, b, sums);
}
POLYCONV_INLINE S32 accumulate(S32 sums, S32 a, S32 b) {
#if defined(__AVX512BW__)
  return bits_as<S32>(
      _mm512_add_epi32(bits_as<__m512i>(sums), _mm512_madd_epi16(bits_as<__m512i>(a), bits_as<__m512i>(b))));
#elif defined(__AVX2__)
  return bits_as<S32>(
      _mm256_add_epi32(bits_as<__m256i>(sums), _mm256_madd_epi16(bits_as<__m256i>(a), bits_as<__m256i>(b))));
#elif defined(__SSE2__)
  return bits_as<S32>(_mm_add_epi32(bits_as<__m128i>(sums), _mm_madd_epi16(bits_as<__m128i>(a), bits_as<__m128i>(b))));
#else
  const S32 low = (bits_as<S32>(bits_as<U32>(a) << 16) >> 16) * (bits_as<S32>(bits_as<U32>(b) << 16) >> 16);
  const S32 high = (a >> 16) * (b >> 16);
  return bits_as<S32>(bits_as<U32>(sums) + bits_as<U32>(low) + bits_as<U32>(high));
#endif
}

// sums[m * sums_stride + column] (+)= the product over `steps` of k. `a` advances by 1 (rows, `a_stride` apart) or by
// `a_stride` (panel), `b` by `b_stride`. With `add` the sums so far are read first. Pointers to every third row
// keep the addresses of 12 rows in 4 registers.
template <class T, int M, int N, bool Rows>
POLYCONV_NOINLINE void multiply_tile(const T *a, int64_t a_stride, const T *b, int64_t b_stride, int64_t steps, T *sums,
                                     int64_t sums_stride, bool add) {
  typedef Vector<T> V;
  constexpr int kL = kLanes<T>;
  V c[M][N];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) c[m][n] = add ? load(sums + m * sums_stride + n * kL) : V{};
  const T *base[(M + 2) / 3];
#pragma GCC unroll 8
  for (int i = 0; i < (M + 2) / 3; ++i) base[i] = a + (Rows ? 3 * i * a_stride : 0);
  for (int64_t k = 0; k < steps; ++k) {
    V vectors[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) vectors[n] = load(b + n * kL);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      const V scalar = splat(Rows ? base[m / 3][m % 3 * a_stride] : a[m]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) c[m][n] = accumulate(c[m][n], scalar, vectors[n]);
    }
    if (Rows) {
#pragma GCC unroll 8
      for (int i = 0; i < (M + 2) / 3; ++i) ++base[i];
    } else {
      a += a_stride;
    }
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store(sums + m * sums_stride + n * kL, c[m][n]);
}

// The tile of the given size: rows rounded up to a third of kTileRows, `vectors` 1 or 2.
template <class T, bool Rows>
POLYCONV_INLINE void multiply(int64_t rows, int vectors, const T *a, int64_t a_stride, const T *b, int64_t b_stride,
                              int64_t steps, T *sums, int64_t sums_stride, bool add) {
  constexpr int kM = kTileRows, kTwo = 2 * kTileThird, kOne = kTileThird;
  if (vectors == kTileVectors) {
    if (rows > kTwo) return multiply_tile<T, kM, 2, Rows>(a, a_stride, b, b_stride, steps, sums, sums_stride, add);
    if (rows > kOne) return multiply_tile<T, kTwo, 2, Rows>(a, a_stride, b, b_stride, steps, sums, sums_stride, add);
    return multiply_tile<T, kOne, 2, Rows>(a, a_stride, b, b_stride, steps, sums, sums_stride, add);
  }
  if (rows > kTwo) return multiply_tile<T, kM, 1, Rows>(a, a_stride, b, b_stride, steps, sums, sums_stride, add);
  if (rows > kOne) return multiply_tile<T, kTwo, 1, Rows>(a, a_stride, b, b_stride, steps, sums, sums_stride, add);
  return multiply_tile<T, kOne, 1, Rows>(a, a_stride, b, b_stride, steps, sums, sums_stride, add);
}

} // namespace polyconv::cpu::POLYCONV_ISA
