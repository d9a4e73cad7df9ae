// convert.hpp - vectors of numbers from stored elements and to them: conversions between storage types and f32 or s32,
// whole vectors and parts. Everything has internal linkage (see pass.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// ---------------------------------------------------------------- storage types to f32

POLYCONV_INLINE F32 load_f32(const float *p) {
  return load(p);
}
POLYCONV_INLINE F32 load_f32(const int32_t *p) {
  return __builtin_convertvector(load(p), F32);
}
POLYCONV_INLINE U32 load_u32(const void *p) { // of 16-bit integers
#if defined(__AVX512F__)
  return bits_as<U32>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i *>(p))));
#elif defined(__AVX2__)
  return bits_as<U32>(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i *>(p))));
#elif defined(POLYCONV_SVE)
  return sve_load_u32(static_cast<const uint16_t *>(p));
#else
  HalfU16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, U32);
#endif
}
POLYCONV_INLINE F32 load_f32(const uint16_t *p) {
  return __builtin_convertvector(bits_as<S32>(load_u32(p)), F32);
}
POLYCONV_INLINE F32 load_f32(const bf16 *p) {
  return bits_as<F32>(load_u32(p) << 16);
}
POLYCONV_INLINE F32 load_f32(const f16 *p) {
#if defined(__AVX512F__)
  return bits_as<F32>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p))));
#elif defined(__F16C__)
  return bits_as<F32>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
#elif defined(POLYCONV_ARM)
  return arm_load_f16(p);
#else
  // Shifted into place the exponent is 112 too small; one multiplication mends it, denormals included.
  const U32 half = load_u32(p), magnitude = half & 0x7fffu, sign = (half & 0x8000u) << 16;
  const U32 finite = bits_as<U32>(bits_as<F32>(magnitude << 13) * splat(0x1p112f));
  const U32 special = (magnitude << 13) | 0x7f800000u;
  return bits_as<F32>(sign | (magnitude >= 0x7c00u ? special : finite));
#endif
}
template <class Byte> // int8_t or uint8_t
POLYCONV_INLINE S32 load_s32(const Byte *p) {
  [[maybe_unused]] constexpr bool kSigned = static_cast<Byte>(-1) < 0;
#if defined(__AVX512F__)
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
  return bits_as<S32>(kSigned ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
#elif defined(__AVX2__)
  const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(p));
  return bits_as<S32>(kSigned ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
#elif defined(POLYCONV_SVE)
  return sve_load_s32(p);
#else
  Quarter<Byte> v;
  __builtin_memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, S32);
#endif
}
POLYCONV_INLINE F32 load_f32(const uint8_t *p) {
  return __builtin_convertvector(load_s32(p), F32);
}
POLYCONV_INLINE F32 load_f32(const int8_t *p) {
  return __builtin_convertvector(load_s32(p), F32);
}

// The first n of as many elements as a vector has numbers, others zero; and these n to memory. By whole registers where
// masks know such elements: what a mask has stored no load is handed over from. The loops' own bound is a constant:
// inlined where n is known to be below it, gcc 14 takes a loop up to n for one that may leave the array.
template <class T>
POLYCONV_INLINE void take_partial(T (&lanes)[kF32Lanes], const T *p, int n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
  if constexpr (sizeof(T) == 1)
    return _mm_storeu_si128(reinterpret_cast<__m128i *>(lanes), _mm_maskz_loadu_epi8(mask, p));
  else if constexpr (sizeof(T) == 2)
    return _mm256_storeu_si256(reinterpret_cast<__m256i *>(lanes), _mm256_maskz_loadu_epi16(mask, p));
  else
#endif
    for (int i = 0; i < kF32Lanes; ++i) lanes[i] = i < n ? p[i] : T{};
}
template <class T>
POLYCONV_INLINE void give_partial(T *p, const T (&lanes)[kF32Lanes], int n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
  if constexpr (sizeof(T) == 1)
    return _mm_mask_storeu_epi8(p, mask, _mm_loadu_si128(reinterpret_cast<const __m128i *>(lanes)));
  else if constexpr (sizeof(T) == 2)
    return _mm256_mask_storeu_epi16(p, mask, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(lanes)));
  else
#endif
    for (int i = 0; i < kF32Lanes; ++i)
      if (i < n) p[i] = lanes[i];
}

// The first n elements as f32; the other lanes are zero.
template <class T>
POLYCONV_INLINE F32 load_f32_partial(const T *p, int n) {
  T lanes[kF32Lanes];
  take_partial(lanes, p, n);
  return load_f32(lanes);
}
POLYCONV_INLINE F32 load_f32_partial(const float *p, int n) {
  return load_partial(p, n);
}

// One element.
template <class T>
POLYCONV_INLINE float scalar_f32(T value) {
  return static_cast<float>(value);
}
POLYCONV_INLINE float scalar_f32(bf16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  __builtin_memcpy(&result, &bits, sizeof result);
  return result;
}
POLYCONV_INLINE float scalar_f32(f16 value) {
#if defined(__F16C__)
  return _cvtsh_ss(value.bits);
#elif defined(POLYCONV_ARM)
  return arm_scalar_f16(value);
#else
  return load_f32_partial(&value, 1)[0];
#endif
}

// ---------------------------------------------------------------- f32 to storage types

POLYCONV_INLINE void store_u16(void *p, U32 v) { // v < 65536
#if defined(__AVX512F__)
  _mm256_storeu_si256(static_cast<__m256i *>(p), _mm512_cvtepi32_epi16(bits_as<__m512i>(v)));
#elif defined(POLYCONV_SVE)
  sve_store_u16(static_cast<uint16_t *>(p), v);
#else
  const HalfU16 narrow = __builtin_convertvector(v, HalfU16);
  __builtin_memcpy(p, &narrow, sizeof narrow);
#endif
}

POLYCONV_INLINE void store_f32(float *p, F32 v) {
  store(p, v);
}
POLYCONV_INLINE void store_f32(bf16 *p, F32 v) {
  const U32 bits = bits_as<U32>(v);
  const U32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const U32 quiet_nan = (bits >> 16) | 0x40u;
  store_u16(p, (bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}
POLYCONV_INLINE void store_f32(f16 *p, F32 v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(p),
                      _mm512_cvtps_ph(bits_as<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i *>(p),
                   _mm256_cvtps_ph(bits_as<__m256>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(POLYCONV_ARM)
  arm_store_f16(p, v);
#else
  const U32 bits = bits_as<U32>(v), magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  const U32 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14 the unit in the last place of this sum is f16's denormal unit.
  const U32 denormal = bits_as<U32>(bits_as<F32>(magnitude) + splat(0.5f)) - 0x3f000000u;
  U32 result = magnitude < 0x38800000u ? denormal : normal;
  result = magnitude >= 0x477ff000u ? splat(0x7c00u) : result; // 65520 and above round to Inf
  result = magnitude > 0x7f800000u ? splat(0x7e00u) : result;
  store_u16(p, result | sign);
#endif
}

// Clamped to [low, high] and 0 for NaN, as int32: what a saturated store of a rounded value needs.
POLYCONV_INLINE S32 saturated(F32 v, float low, float high) {
#if defined(POLYCONV_ARM) // where NaN becomes 0 and what is too large the largest integer, by the conversion itself
  const S32 whole = arm_to_s32(v), least = splat(static_cast<int32_t>(low)), most = splat(static_cast<int32_t>(high));
  const S32 above = whole < least ? least : whole;
  return above > most ? most : above;
#else
  v = v == v ? v : F32{};
  v = v < low ? splat(low) : v;
  v = v > high ? splat(high) : v;
  return __builtin_convertvector(v, S32);
#endif
}
POLYCONV_INLINE void store_f32(int32_t *p, F32 v) { // 2^31 itself has no place in int32
#if defined(POLYCONV_ARM)
  store(p, arm_to_s32(v));
#else
  const S32 below = saturated(v, -2147483648.0f, 2147483520.0f);
  store(p, v >= 2147483648.0f ? splat(int32_t{2147483647}) : below);
#endif
}
// saturated from 0 on. The minimum's second operand is its result for NaN, whose conversion is as negative as can be.
POLYCONV_INLINE S32 saturated_unsigned(F32 v, float high) {
#if defined(__AVX512F__)
  const __m512i whole = _mm512_cvtps_epi32(_mm512_min_ps(bits_as<__m512>(splat(high)), bits_as<__m512>(v)));
  return bits_as<S32>(_mm512_max_epi32(whole, _mm512_setzero_si512()));
#elif defined(__AVX2__)
  const __m256i whole = _mm256_cvtps_epi32(_mm256_min_ps(bits_as<__m256>(splat(high)), bits_as<__m256>(v)));
  return bits_as<S32>(_mm256_max_epi32(whole, _mm256_setzero_si256()));
#else
  return saturated(v, 0.0f, high);
#endif
}
POLYCONV_INLINE void store_f32(uint16_t *p, F32 v) {
  store_u16(p, bits_as<U32>(saturated_unsigned(v, 65535.0f)));
}
template <class Byte>
POLYCONV_INLINE void store_bytes(Byte *p, S32 v) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtepi32_epi8(bits_as<__m512i>(v)));
#elif defined(POLYCONV_SVE)
  sve_store_bytes(reinterpret_cast<uint8_t *>(p), v);
#else
  const Quarter<Byte> narrow = __builtin_convertvector(v, Quarter<Byte>);
  __builtin_memcpy(p, &narrow, sizeof narrow);
#endif
}
POLYCONV_INLINE void store_f32(uint8_t *p, F32 v) {
  store_bytes(p, saturated_unsigned(v, 255.0f));
}
POLYCONV_INLINE void store_f32(int8_t *p, F32 v) {
  store_bytes(p, saturated(v, -128.0f, 127.0f));
}

// The first n lanes, integers already rounded (see round_even).
template <class T>
POLYCONV_INLINE void store_f32_partial(T *p, F32 v, int n) {
  T lanes[kF32Lanes];
  store_f32(lanes, v);
  give_partial(p, lanes, n);
}
POLYCONV_INLINE void store_f32_partial(float *p, F32 v, int n) {
  store_partial(p, v, n);
}

} // namespace polyconv::cpu::POLYCONV_ISA
