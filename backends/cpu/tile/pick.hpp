// pick.hpp - lane by lane an element of one vector or of two, for kernels whose vectors are of several groups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Integers as wide as T, a vector of them.
template <class T>
using Lanes = decltype(Vector<T>{} < Vector<T>{});

// Lane by lane the element of the pair (low, high) that `index` counts.
template <class V, class I>
POLYCONV_INLINE V picked(V low, V high, I index) {
#if defined(__AVX512F__)
  const __m512i a = bits_as<__m512i>(low), b = bits_as<__m512i>(high), i = bits_as<__m512i>(index);
  if constexpr (sizeof(index[0]) == 4) return bits_as<V>(_mm512_permutex2var_epi32(a, i, b));
  return bits_as<V>(_mm512_permutex2var_epi64(a, i, b));
#elif defined(__AVX2__)
  __m256i i = bits_as<__m256i>(index);
  if constexpr (sizeof(index[0]) == 8) { // as two elements of four bytes
    const __m256i twice = _mm256_add_epi64(i, i);
    i = _mm256_or_si256(twice, _mm256_slli_epi64(_mm256_add_epi64(twice, _mm256_set1_epi64x(1)), 32));
  }
  const __m256i of_low = _mm256_permutevar8x32_epi32(bits_as<__m256i>(low), i);
  const __m256i of_high = _mm256_permutevar8x32_epi32(bits_as<__m256i>(high), i);
  return bits_as<V>(_mm256_blendv_ps(bits_as<__m256>(of_low), bits_as<__m256>(of_high),
                                     bits_as<__m256>(_mm256_slli_epi32(i, 28)))); // its sign: from 8 on
#elif defined(POLYCONV_ARM)
  return arm_picked(low, high, index);
#else
  constexpr int kL = sizeof low / sizeof low[0];
  decltype(low[0] + low[0]) pair[2 * kL];
  store(pair, low), store(pair + kL, high);
  V made = {};
  for (int lane = 0; lane < kL; ++lane) made[lane] = pair[index[lane]];
  return made;
#endif
}
template <class V, class I>
POLYCONV_INLINE V picked(V low, I index) {
#if defined(__AVX512F__)
  if constexpr (sizeof(index[0]) == 4)
    return bits_as<V>(_mm512_permutexvar_epi32(bits_as<__m512i>(index), bits_as<__m512i>(low)));
  return bits_as<V>(_mm512_permutexvar_epi64(bits_as<__m512i>(index), bits_as<__m512i>(low)));
#elif defined(__AVX2__)
  if constexpr (sizeof(index[0]) == 4)
    return bits_as<V>(_mm256_permutevar8x32_epi32(bits_as<__m256i>(low), bits_as<__m256i>(index)));
  return picked(low, low, index);
#else
  return picked(low, low, index);
#endif
}

} // namespace polyconv::cpu::POLYCONV_ISA
