// simd.hpp - vectors as wide as the pass's instruction set, over gcc's and clang's vector extensions: arithmetic and
// comparison are the operators; here are loads, stores, tails and fused multiply-add. Storage types: convert.hpp.
// Everything has internal linkage (see pass.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/pass.hpp"

#include <polyconv/sdk/half.hpp> // the storage types only: its functions belong to the driver

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#include "cpu/common/registers.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kVectorBytes = POLYCONV_VECTOR_BYTES;
constexpr bool kManyRegisters = POLYCONV_VECTOR_REGISTERS == 32;

using sdk::bf16;
using sdk::f16;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

typedef Vector<float> F32;
typedef Vector<double> F64;
typedef Vector<int32_t> S32;
typedef Vector<uint32_t> U32;
constexpr int kF32Lanes = kLanes<float>;
// As many 16-bit or 8-bit integers as F32 has lanes.
typedef uint16_t HalfU16 __attribute__((vector_size(kVectorBytes / 2)));
typedef int16_t HalfS16 __attribute__((vector_size(kVectorBytes / 2)));
template <class Byte>
struct QuarterOf {
  typedef Byte type __attribute__((vector_size(kVectorBytes / 4)));
};
template <class Byte>
using Quarter = typename QuarterOf<Byte>::type;

// ---------------------------------------------------------------- loads and stores

// The same bits as another vector type of that size.
template <class To, class From>
POLYCONV_INLINE To bits_as(From v) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To result;
  __builtin_memcpy(&result, &v, sizeof result);
  return result;
}

template <class T>
POLYCONV_INLINE Vector<T> splat(T value) {
  return value - Vector<T>{}; // x - 0 keeps every bit of x, -0 and NaN included
}

// The value at p in every lane. With SVE a load does that at once, from an address in one register: gcc, which sees the
// sum that an address is, would load a scalar and copy it by an arithmetic instruction.
template <class T>
POLYCONV_INLINE Vector<T> splat_at(const T *p) {
#if defined(POLYCONV_SVE)
  __asm__("" : "+r"(p));
#endif
  return splat(*p);
}

template <class T>
POLYCONV_INLINE Vector<T> load(const T *p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
POLYCONV_INLINE void store(T *p, Vector<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

#if defined(POLYCONV_ARM)
} // namespace polyconv::cpu::POLYCONV_ISA
#include "cpu/common/simd_arm.hpp"
namespace polyconv::cpu::POLYCONV_ISA {
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
// Lanes below n have their top bit set: the masks of vmaskmov.
POLYCONV_INLINE __m256i mask_below(int n, int element_size) {
  const __m256i lane4 = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i lane8 = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), element_size == 4 ? lane4 : lane8);
}
#endif

// The first n elements (0 <= n <= lanes), zero in the others; memory beyond them is not touched. 4- or 8-byte T.
template <class T>
POLYCONV_INLINE Vector<T> load_partial(const T *p, int n) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32-bit or 64-bit elements");
#if defined(__AVX512F__)
  if (sizeof(T) == 4) return bits_as<Vector<T>>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << n) - 1), p));
  return bits_as<Vector<T>>(_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << n) - 1), p));
#elif defined(__AVX2__)
  return bits_as<Vector<T>>(
      _mm256_maskload_epi32(reinterpret_cast<const int *>(p), mask_below(n, static_cast<int>(sizeof(T)))));
#elif defined(POLYCONV_SVE)
  return sve_load_partial(p, n);
#else
  T lanes[kLanes<T>] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
#endif
}

template <class T>
POLYCONV_INLINE void store_partial(T *p, Vector<T> v, int n) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32-bit or 64-bit elements");
#if defined(__AVX512F__)
  if (sizeof(T) == 4)
    _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << n) - 1), bits_as<__m512i>(v));
  else
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << n) - 1), bits_as<__m512i>(v));
#elif defined(__AVX2__)
  _mm256_maskstore_epi32(reinterpret_cast<int *>(p), mask_below(n, static_cast<int>(sizeof(T))), bits_as<__m256i>(v));
#elif defined(POLYCONV_SVE)
  sve_store_partial(p, v, n);
#else
  T lanes[kLanes<T>];
  store(lanes, v);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}

// Lanes First, First + 1, ... of the pair (low, high), as many as a vector has.
template <int First>
POLYCONV_INLINE F32 shifted(F32 low, F32 high) {
#if defined(__AVX512F__)
  return bits_as<F32>(_mm512_alignr_epi32(bits_as<__m512i>(high), bits_as<__m512i>(low), First));
#elif defined(POLYCONV_ARM)
  return arm_shifted<First>(low, high);
#else
  float pair[2 * kF32Lanes];
  store(pair, low), store(pair + kF32Lanes, high);
  return load(pair + First);
#endif
}

// The same vector, but loaded by now: without this gcc makes a loaded value an operand of each multiply-add that uses
// it, and loads it as many times. Arm's multiply-adds have no operands in memory, and take a factor from any lane.
template <class V>
POLYCONV_INLINE V loaded(V v) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(v));
#elif defined(__SSE2__)
  __asm__("" : "+x"(v));
#endif
  return v;
}

// A store to an aligned address that leaves the cache alone, for results too many to stay in it; a task that made some
// ends with streamed_stores_done.
template <class T>
POLYCONV_INLINE void store_past_cache(T *p, Vector<T> v) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i *>(p), bits_as<__m512i>(v));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i *>(p), bits_as<__m256i>(v));
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i *>(p), bits_as<__m128i>(v));
#elif defined(POLYCONV_SVE)
  sve_store_past_cache(p, v);
#else
  store(p, v);
#endif
}
POLYCONV_INLINE void streamed_stores_done() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// ---------------------------------------------------------------- arithmetic

// a b + c, rounded once where the instruction set can; which of the two is fixed for a pass.
POLYCONV_INLINE F32 multiply_add(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return bits_as<F32>(_mm512_fmadd_ps(bits_as<__m512>(a), bits_as<__m512>(b), bits_as<__m512>(c)));
#elif defined(__FMA__)
  return bits_as<F32>(_mm256_fmadd_ps(bits_as<__m256>(a), bits_as<__m256>(b), bits_as<__m256>(c)));
#elif defined(POLYCONV_ARM)
  return arm_multiply_add(a, b, c);
#else
  return a * b + c;
#endif
}
POLYCONV_INLINE F64 multiply_add(F64 a, F64 b, F64 c) {
#if defined(__AVX512F__)
  return bits_as<F64>(_mm512_fmadd_pd(bits_as<__m512d>(a), bits_as<__m512d>(b), bits_as<__m512d>(c)));
#elif defined(__FMA__)
  return bits_as<F64>(_mm256_fmadd_pd(bits_as<__m256d>(a), bits_as<__m256d>(b), bits_as<__m256d>(c)));
#elif defined(POLYCONV_ARM)
  return arm_multiply_add(a, b, c);
#else
  return a * b + c;
#endif
}
POLYCONV_INLINE S32 multiply_add(S32 a, S32 b, S32 c) { // modulo 2^32
  return bits_as<S32>(bits_as<U32>(a) * bits_as<U32>(b) + bits_as<U32>(c));
}

// Rounds half to even, without an instruction for it: below 2^23 adding and subtracting 2^23 does.
POLYCONV_INLINE F32 round_even(F32 v) {
#if defined(__AVX512F__)
  return bits_as<F32>(_mm512_roundscale_ps(bits_as<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__)
  return bits_as<F32>(_mm256_round_ps(bits_as<__m256>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(POLYCONV_ARM)
  return arm_round_even(v);
#else
  const F32 big = splat(8388608.0f);
  const U32 sign = bits_as<U32>(v) & 0x80000000u;
  const F32 magnitude = bits_as<F32>(bits_as<U32>(v) ^ sign);
  const F32 rounded = bits_as<F32>(bits_as<U32>((magnitude + big) - big) | sign);
  return magnitude < big ? rounded : v; // NaN too
#endif
}

} // namespace polyconv::cpu::POLYCONV_ISA
