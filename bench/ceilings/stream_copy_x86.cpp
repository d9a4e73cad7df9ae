// stream_copy_x86.cpp - a copy whose stores go past the caches; compiled for x86 only.
// SPDX-License-Identifier: Apache-2.0
#include <emmintrin.h>

#include <cstddef>

namespace polyconv::bench {

void copy_nontemporal(void *destination, const void *source, size_t bytes) {
  auto *to = static_cast<__m128i *>(destination);
  const auto *from = static_cast<const __m128i *>(source);
  for (size_t i = 0; i < bytes / sizeof(__m128i); i += 4) {
    const __m128i a = _mm_load_si128(from + i), b = _mm_load_si128(from + i + 1);
    const __m128i c = _mm_load_si128(from + i + 2), d = _mm_load_si128(from + i + 3);
    _mm_stream_si128(to + i, a);
    _mm_stream_si128(to + i + 1, b);
    _mm_stream_si128(to + i + 2, c);
    _mm_stream_si128(to + i + 3, d);
  }
  _mm_sfence();
}

} // namespace polyconv::bench
