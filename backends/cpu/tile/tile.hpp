// tile.hpp - what register tiles are made of: M rows by N vectors of sums that stay in registers while a reduction
// runs. Kernels differ in what feeds a tile and in where its sums go; every step multiplies as add_products does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// sum += a b as multiply_add has it, in the register that the sum is in. Of sixteen registers gcc gives a sum of an
// unrolled loop another one after every step, and copies and spills them all where the loop begins again.
POLYCONV_INLINE void add_product(F32 a, F32 b, F32 &sum) {
#if defined(__FMA__) && !defined(__AVX512F__)
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#else
  sum = multiply_add(a, b, sum);
#endif
}
template <class V>
POLYCONV_INLINE void add_product(V a, V b, V &sum) {
  sum = multiply_add(a, b, sum);
}

// Steps of a reduction at once. Few registers hold few multiply-adds a step, beside which counting and fetching early
// are as many instructions again: fewer decode sooner where the core's other thread is another machine's. Where a
// multiply-add is two instructions, each needs a register for the product, and several steps would spill.
#if defined(__FMA__)
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif
template <int Few>
constexpr int kSteps = kFused && !kManyRegisters ? Few : 1;
constexpr int kLineVectors = kVectorBytes < 64 ? 64 / kVectorBytes : 1; // of a line of the caches

// N vectors side by side.
template <class T, int N>
POLYCONV_INLINE void load_vectors(const T *p, Vector<T> (&v)[N]) {
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) v[n] = load(p + n * kLanes<T>);
}

// sums[m][n] += factor(m) * v[n]: mostly a number in every lane.
template <class V, int M, int N, class Factor>
POLYCONV_INLINE void add_products(const Factor &factor, const V (&v)[N], V (&sums)[M][N]) {
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    const V scalar = factor(m);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) add_product(scalar, v[n], sums[m][n]);
  }
}

// Asks for the lines that M rows of N vectors will be stored in.
template <int M, int N, class T>
POLYCONV_INLINE void fetch_rows(T *p, int64_t stride) {
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; n += kLineVectors) __builtin_prefetch(p + m * stride + n * kLanes<T>, 1);
}

// M rows of N vectors, `stride` elements apart.
template <class T, int M, int N>
POLYCONV_INLINE void load_rows(const T *p, int64_t stride, Vector<T> (&sums)[M][N]) {
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[m][n] = load(p + m * stride + n * kLanes<T>);
}
template <class T, int M, int N>
POLYCONV_INLINE void store_rows(T *p, int64_t stride, const Vector<T> (&sums)[M][N]) {
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) store(p + m * stride + n * kLanes<T>, sums[m][n]);
}

// A size of a tile as a type: with_size<14>(rows, [&](auto m) { tile<m.value>(...); }) calls the tile of 1 to 14 rows;
// with_size<28, 15>, of 15 to 28.
template <int Value>
struct Size {
  static constexpr int value = Value;
};
template <int Most, int Least = 1, class Body>
POLYCONV_INLINE void with_size(int64_t n, const Body &body) {
  if constexpr (Most > Least)
    if (n < Most) return with_size<Most - 1, Least>(n, body);
  body(Size<Most>());
}

} // namespace polyconv::cpu::POLYCONV_ISA
