// simd_arm.hpp - what simd.hpp does by instructions of their own in the passes for Arm: NEON, and SVE with registers of
// a known length. Included by simd.hpp alone, which says what each function is for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#if defined(POLYCONV_SVE)
#include <arm_sve.h>
#else
#include <arm_neon.h>
#endif

namespace polyconv::cpu::POLYCONV_ISA {

// Lane by lane what the pair (low, high) has from First on.
template <int First, int... kLane>
POLYCONV_INLINE F32 arm_shuffled(F32 low, F32 high, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(low, high, (First + kLane)...);
}
template <int First>
POLYCONV_INLINE F32 arm_shifted(F32 low, F32 high) {
  return arm_shuffled<First>(low, high, std::make_integer_sequence<int, kF32Lanes>{});
}

#if defined(POLYCONV_SVE)

// The compiler's own types of that length, which go over into its sizeless ones and back.
#define POLYCONV_SVE_TYPE __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)))
typedef svfloat32_t SveF32 POLYCONV_SVE_TYPE;
typedef svfloat64_t SveF64 POLYCONV_SVE_TYPE;
typedef svint32_t SveS32 POLYCONV_SVE_TYPE;
typedef svuint32_t SveU32 POLYCONV_SVE_TYPE;
typedef svuint64_t SveU64 POLYCONV_SVE_TYPE;

// The lanes whose bits are set, of 32-bit elements.
POLYCONV_INLINE svbool_t sve_lanes(uint32_t lanes) {
  const svbool_t all = svptrue_b32();
  const svuint32_t bits = svlsr_u32_x(all, svdup_n_u32(lanes), svindex_u32(0, 1));
  return svcmpne_n_u32(all, svand_n_u32_x(all, bits, 1), 0);
}

template <class T>
POLYCONV_INLINE Vector<T> sve_load_partial(const T *p, int n) {
  if constexpr (sizeof(T) == 4)
    return bits_as<Vector<T>>(SveU32(svld1_u32(svwhilelt_b32(0, n), reinterpret_cast<const uint32_t *>(p))));
  else
    return bits_as<Vector<T>>(SveU64(svld1_u64(svwhilelt_b64(0, n), reinterpret_cast<const uint64_t *>(p))));
}
template <class T>
POLYCONV_INLINE void sve_store_partial(T *p, Vector<T> v, int n) {
  if constexpr (sizeof(T) == 4)
    svst1_u32(svwhilelt_b32(0, n), reinterpret_cast<uint32_t *>(p), bits_as<SveU32>(v));
  else
    svst1_u64(svwhilelt_b64(0, n), reinterpret_cast<uint64_t *>(p), bits_as<SveU64>(v));
}
template <class T>
POLYCONV_INLINE void sve_store_past_cache(T *p, Vector<T> v) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32-bit or 64-bit elements");
  if constexpr (sizeof(T) == 4)
    svstnt1_u32(svptrue_b32(), reinterpret_cast<uint32_t *>(p), bits_as<SveU32>(v));
  else
    svstnt1_u64(svptrue_b64(), reinterpret_cast<uint64_t *>(p), bits_as<SveU64>(v));
}

POLYCONV_INLINE F32 arm_multiply_add(F32 a, F32 b, F32 c) {
  return bits_as<F32>(SveF32(svmla_f32_x(svptrue_b32(), bits_as<SveF32>(c), bits_as<SveF32>(a), bits_as<SveF32>(b))));
}
POLYCONV_INLINE F64 arm_multiply_add(F64 a, F64 b, F64 c) {
  return bits_as<F64>(SveF64(svmla_f64_x(svptrue_b64(), bits_as<SveF64>(c), bits_as<SveF64>(a), bits_as<SveF64>(b))));
}
POLYCONV_INLINE F32 arm_round_even(F32 v) {
  return bits_as<F32>(SveF32(svrintn_f32_x(svptrue_b32(), bits_as<SveF32>(v))));
}
POLYCONV_INLINE S32 arm_to_s32(F32 v) {
  return bits_as<S32>(SveS32(svcvt_s32_f32_x(svptrue_b32(), bits_as<SveF32>(v))));
}

// Loads that widen and stores that narrow: a 32-bit lane for each element in memory.
POLYCONV_INLINE U32 sve_load_u32(const uint16_t *p) {
  return bits_as<U32>(SveU32(svld1uh_u32(svptrue_b32(), p)));
}
POLYCONV_INLINE S32 sve_load_s32(const uint8_t *p) {
  return bits_as<S32>(SveS32(svld1ub_s32(svptrue_b32(), p)));
}
POLYCONV_INLINE S32 sve_load_s32(const int8_t *p) {
  return bits_as<S32>(SveS32(svld1sb_s32(svptrue_b32(), p)));
}
POLYCONV_INLINE void sve_store_u16(uint16_t *p, U32 v) {
  svst1h_u32(svptrue_b32(), p, bits_as<SveU32>(v));
}
POLYCONV_INLINE void sve_store_bytes(uint8_t *p, S32 v) {
  svst1b_u32(svptrue_b32(), p, bits_as<SveU32>(v));
}

// The conversions read and write the lower half of each 32-bit lane.
POLYCONV_INLINE F32 arm_load_f16(const f16 *p) {
  const svuint32_t half = svld1uh_u32(svptrue_b32(), reinterpret_cast<const uint16_t *>(p));
  return bits_as<F32>(SveF32(svcvt_f32_f16_x(svptrue_b32(), svreinterpret_f16_u32(half))));
}
POLYCONV_INLINE void arm_store_f16(f16 *p, F32 v) {
  const svfloat16_t half = svcvt_f16_f32_x(svptrue_b32(), bits_as<SveF32>(v));
  svst1h_u32(svptrue_b32(), reinterpret_cast<uint16_t *>(p), svreinterpret_u32_f16(half));
}

// A lookup beyond the table gives zero: an index of the other vector's.
template <class V, class I>
POLYCONV_INLINE V arm_picked(V low, V high, I index) {
  constexpr int kL = sizeof(V) / sizeof(low[0]);
  if constexpr (sizeof(low[0]) == 4) {
    const SveU32 of_low = svtbl_u32(bits_as<SveU32>(low), bits_as<SveU32>(index));
    const SveU32 of_high = svtbl_u32(bits_as<SveU32>(high), bits_as<SveU32>(index - kL));
    return bits_as<V>(SveU32(svorr_u32_x(svptrue_b32(), of_low, of_high)));
  } else {
    const SveU64 of_low = svtbl_u64(bits_as<SveU64>(low), bits_as<SveU64>(index));
    const SveU64 of_high = svtbl_u64(bits_as<SveU64>(high), bits_as<SveU64>(index - kL));
    return bits_as<V>(SveU64(svorr_u64_x(svptrue_b64(), of_low, of_high)));
  }
}

#else // NEON

POLYCONV_INLINE F32 arm_multiply_add(F32 a, F32 b, F32 c) {
  return vfmaq_f32(c, a, b);
}
POLYCONV_INLINE F64 arm_multiply_add(F64 a, F64 b, F64 c) {
  return vfmaq_f64(c, a, b);
}
POLYCONV_INLINE F32 arm_round_even(F32 v) {
  return vrndnq_f32(v);
}
POLYCONV_INLINE S32 arm_to_s32(F32 v) {
  return vcvtq_s32_f32(v);
}
POLYCONV_INLINE F32 arm_load_f16(const f16 *p) {
  uint16x4_t half;
  __builtin_memcpy(&half, p, sizeof half);
  return vcvt_f32_f16(vreinterpret_f16_u16(half));
}
POLYCONV_INLINE void arm_store_f16(f16 *p, F32 v) {
  const uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(v));
  __builtin_memcpy(p, &half, sizeof half);
}

// By bytes: an element's index becomes those of its bytes.
template <class V, class I>
POLYCONV_INLINE V arm_picked(V low, V high, I index) {
  const uint8x16x2_t pair = {{bits_as<uint8x16_t>(low), bits_as<uint8x16_t>(high)}};
  if constexpr (sizeof(low[0]) == 4)
    return bits_as<V>(vqtbl2q_u8(pair, bits_as<uint8x16_t>(bits_as<U32>(index) * 0x04040404u + 0x03020100u)));
  else
    return bits_as<V>(vqtbl2q_u8(
        pair, bits_as<uint8x16_t>(bits_as<Vector<uint64_t>>(index) * 0x0808080808080808u + 0x0706050403020100u)));
}

#endif

// One number, by the scalar conversion that every 64-bit Arm has.
POLYCONV_INLINE float arm_scalar_f16(f16 value) {
  __fp16 half;
  __builtin_memcpy(&half, &value, sizeof half);
  return half;
}

} // namespace polyconv::cpu::POLYCONV_ISA
