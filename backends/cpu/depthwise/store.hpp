// store.hpp - where the sums of depthwise convolution go, from registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/common/load.hpp"
#include "cpu/depthwise/plan.hpp"
#include "cpu/tile/narrow.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Where sums go: results, finished with a bias and a quick activation, or a buffer.
template <class T>
struct DepthwiseStore {
  T *to;                          // of the first row, column and channel; where narrow, of the type of the source
  int64_t row, column;            // elements between them
  int64_t rows, columns;          // that exist
  const T *bias;                  // of the first channel, or NULL
  const polyconv_epilogue *rules; // NULL: sums as they are
  bool stream;                    // past the cache
  bool narrow = false;            // results are rounded to the source's type of 16 bits
};
template <class From>
constexpr bool kNarrow = __is_same(From, bf16) || __is_same(From, f16);

// P vectors `step` elements apart from element `at` of the results on, as many as exist. From: what they were made of.
template <class From, class T, int P>
POLYCONV_INLINE void store_vectors(const DepthwiseStore<T> &to, int64_t at, int64_t step, int64_t exist, int64_t c,
                                   int count, Vector<T> (&acc)[P]) {
  if (to.rules) {
    Vector<T> bias = {};
    if (to.bias) bias = count == kLanes<T> ? load(to.bias + c) : load_partial(to.bias + c, count);
    const Vector<T> alpha = splat(static_cast<T>(to.rules->activation_alpha));
#pragma GCC unroll 8
    for (int j = 0; j < P; ++j)
      if constexpr (__is_same(T, int32_t)) // modulo 2^32, and no activation
        acc[j] = bits_as<S32>(bits_as<U32>(acc[j]) + bits_as<U32>(bias));
      else
        acc[j] = activate(to.bias ? acc[j] + bias : acc[j], to.rules->activation, alpha);
  }
  if constexpr (kNarrow<From>)
    if (to.narrow) {
      From *p = reinterpret_cast<From *>(to.to) + at;
#pragma GCC unroll 8
      for (int j = 0; j < P; ++j, p += step) {
        if (j >= exist) return;
        count < kLanes<T> ? store_narrow(p, acc[j], count) : store_narrow(p, acc[j]);
      }
      return;
    }
  T *p = to.to + at;
#pragma GCC unroll 8
  for (int j = 0; j < P; ++j, p += step) {
    if (j >= exist) return;
    if (count < kLanes<T>)
      store_partial(p, acc[j], count);
    else if (to.stream)
      store_past_cache(p, acc[j]);
    else
      store(p, acc[j]);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
