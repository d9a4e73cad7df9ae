// masked.hpp - vectors of which some lanes alone are memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// v, but what lies at p in the lanes whose bits are set; no others are read.
POLYCONV_INLINE F32 load_into(F32 v, uint32_t lanes, const float *p) {
#if defined(__AVX512F__)
  return bits_as<F32>(_mm512_mask_loadu_ps(bits_as<__m512>(v), static_cast<__mmask16>(lanes), p));
#elif defined(POLYCONV_SVE)
  const svbool_t mask = sve_lanes(lanes);
  return bits_as<F32>(SveF32(svsel_f32(mask, svld1_f32(mask, p), bits_as<SveF32>(v))));
#else
  for (int i = 0; i < kF32Lanes; ++i)
    if (lanes >> i & 1) v[i] = p[i];
  return v;
#endif
}

// Stores the lanes whose bits are set; nothing else is touched.
POLYCONV_INLINE void store_lanes(float *p, uint32_t lanes, F32 v) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>(lanes), bits_as<__m512>(v));
#elif defined(POLYCONV_SVE)
  svst1_f32(sve_lanes(lanes), p, bits_as<SveF32>(v));
#else
  for (int i = 0; i < kF32Lanes; ++i)
    if (lanes >> i & 1) p[i] = v[i];
#endif
}

} // namespace polyconv::cpu::POLYCONV_ISA
