// tile.hpp - the register tile of the lowered kernel: M filters by N vectors of results, over every channel and tap.
// Floor: M * N multiply-adds a tap against N loads, nearly all of them across a cache line, and M broadcasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/common/masked.hpp"
#include "cpu/lowered/plan.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// As many sums as leave registers for N source vectors and a broadcast.
constexpr int kLoweredFilters = kManyRegisters ? 8 : 6, kLoweredSums = kManyRegisters ? 25 : 12;
constexpr int kLoweredVectors = kManyRegisters ? 8 : 3;
constexpr POLYCONV_INLINE int lowered_vectors(int filters) {
  return kLoweredSums / filters < kLoweredVectors ? kLoweredSums / filters : kLoweredVectors;
}

// How a tile's vectors lie in the source: at one distance; each at its own place, those that run over the end of a row
// joined from it and the next; or so, at the end of the source, which is not read beyond.
enum class Lies { kEvenly, kJoined, kAtEnd };

struct LoweredSum {
  const float *source; // of the first channel
  const int64_t *tap;
  int64_t taps, channels, channel_elements;
  int64_t vector;       // elements between vectors: of columns below each other, or side by side
  const float *weights; // [channel][tap][filter]
  Lies lies;
  int64_t gap; // elements between the end of a row of results and the next one's beginning
  int64_t place[kLoweredVectors];
  uint32_t first[kLoweredVectors], next[kLoweredVectors]; // lanes, as bits, of a row and of the next
};

template <Lies lies, int N>
POLYCONV_INLINE void load_lying(const LoweredSum &s, const float *source, F32 (&v)[N]) {
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) {
    if (lies == Lies::kEvenly) {
      v[n] = load(source + n * s.vector);
      continue;
    }
    const float *p = source + s.place[n];
    v[n] = lies == Lies::kAtEnd ? load_into(F32{}, s.first[n], p) : load(p);
    if (s.next[n]) v[n] = load_into(v[n], s.next[n], p + s.gap); // else the ports of multiply-adds would blend in vain
  }
}

// Where a tile's sums go: a buffer, or results, finished with a bias and a quick activation.
struct LoweredStore {
  float *to;
  int64_t stride, vector; // between filters, and vectors
  int lanes;              // of the last vector
  bool finish, stream;    // stream: past the cache
  const float *bias;      // of the first filter, or NULL
  const polyconv_epilogue *rules;
};

// Asks for the lines that a tile's results end in, while it multiplies: where they begin, the tile before ended.
template <int M, int N>
POLYCONV_INLINE void fetch_results(const LoweredStore &to) {
  if (to.stream || !to.finish) return;
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) __builtin_prefetch(to.to + m * to.stride + n * to.vector + kF32Lanes - 1, 1);
}

template <int M, int N, class Store>
POLYCONV_INLINE void store_vectors(const LoweredStore &to, const F32 (&sums)[M][N], int first, int last,
                                   const Store &put) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n)
      if (first <= n && n < last) put(to.to + m * to.stride + n * to.vector, sums[m][n]);
}
template <int M, int N>
POLYCONV_INLINE void store_sums(const LoweredStore &to, const F32 (&sums)[M][N]) {
  if (to.stream)
    store_vectors(to, sums, 0, N - 1, [](float *p, F32 v) { store_past_cache(p, v); });
  else
    store_vectors(to, sums, 0, N - 1, [](float *p, F32 v) { store(p, v); });
  if (to.lanes < kF32Lanes)
    store_vectors(to, sums, N - 1, N, [&](float *p, F32 v) { store_partial(p, v, to.lanes); });
  else if (to.stream)
    store_vectors(to, sums, N - 1, N, [](float *p, F32 v) { store_past_cache(p, v); });
  else
    store_vectors(to, sums, N - 1, N, [](float *p, F32 v) { store(p, v); });
}

template <int M, int N, Lies lies>
POLYCONV_NOINLINE void lowered_tile(const LoweredSum &sum, const LoweredStore &to) {
  F32 acc[M][N] = {};
  fetch_results<M, N>(to);
  const LoweredSum s = sum; // in registers: a store might change the caller's
  const int64_t taps = s.taps;
  const float *channel = s.source, *weights = s.weights;
  for (int64_t c = 0; c < s.channels; ++c, channel += s.channel_elements) {
    for (int64_t t = 0; t < taps; ++t, weights += M) {
      const float *source = channel + s.tap[t];
      F32 v[N];
      load_lying<lies>(s, source, v);
      add_products([&](int m) { return splat(weights[m]); }, v, acc);
    }
  }
  if (to.finish) {
    if (to.bias) add_bias(to.bias, acc);
    activate_tile(to.rules->activation, splat(to.rules->activation_alpha), acc);
  }
  store_sums(to, acc);
}

// The tile of `filters` by n vectors, n at most lowered_vectors(filters).
POLYCONV_INLINE void lowered_tile_of(int filters, int n, const LoweredSum &s, const LoweredStore &to) {
  with_size<kLoweredFilters>(filters, [&](auto m) {
    with_size<lowered_vectors(m.value)>(n, [&](auto v) {
      if (s.lies == Lies::kEvenly) return lowered_tile<m.value, v.value, Lies::kEvenly>(s, to);
      if constexpr (kManyRegisters) {
        if (s.lies == Lies::kJoined) return lowered_tile<m.value, v.value, Lies::kJoined>(s, to);
        lowered_tile<m.value, v.value, Lies::kAtEnd>(s, to);
      }
    });
  });
}

} // namespace polyconv::cpu::POLYCONV_ISA
