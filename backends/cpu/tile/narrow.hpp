// narrow.hpp - stores f32 as types of 16 bits: bf16 by the instruction for it, in passes that have one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/convert.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

template <class T>
POLYCONV_INLINE void store_narrow(T *p, F32 v) {
  store_f32(p, v);
}
template <class T>
POLYCONV_INLINE void store_narrow(T *p, F32 v, int count) { // the first lanes
  store_f32_partial(p, v, count);
}
#if defined(__AVX512BF16__)
// Numbers too small to be normal become 0, as they do in this pass's products.
POLYCONV_INLINE void store_narrow(bf16 *p, F32 v) {
  const __m256bh narrow = _mm512_cvtneps_pbh(bits_as<__m512>(v));
  __builtin_memcpy(p, &narrow, sizeof narrow);
}
POLYCONV_INLINE void store_narrow(bf16 *p, F32 v, int count) {
  const __m256bh narrow = _mm512_cvtneps_pbh(bits_as<__m512>(v));
  const auto lanes = static_cast<__mmask16>((1u << count) - 1);
  _mm256_mask_storeu_epi16(p, lanes, bits_as<__m256i>(narrow));
}
#endif

} // namespace polyconv::cpu::POLYCONV_ISA
