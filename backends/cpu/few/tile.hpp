// tile.hpp - the register tile of few filters: P pixels by K filters, input channels along the vectors.
// Floor: P * K multiply-adds a vector of channels against P + K loads; P * K lanes are added up once a tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/convert.hpp"
#include "cpu/common/transpose.hpp"
#include "cpu/few/plan.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

template <int K>
constexpr int kFewTile = kFewPixels[POLYCONV_VECTOR_REGISTERS == 32][K];

// Bytes that pixels are fetched ahead: a core's own prefetching ends with a page.
constexpr int64_t kFewAhead = 4096;

template <class From>
struct FewTile {
  const From *const *pixels; // that the first tap of the first result reads
  int64_t line_pixels;
  int64_t lines, taps;    // taps of D and H, and of W
  int64_t step, dilation; // along W, in pixels
  int64_t channel, channels;
  const float *weights;
};

// Lane i is the sum of all lanes of vector First + i; of none, 0. Each round adds the halves of two vectors lane by
// lane, and after as many rounds as a vector has halvings only sums of whole vectors are left.
template <int First, int N>
POLYCONV_INLINE F32 sum_lanes(const F32 (&v)[N]) {
  F32 sums[kF32Lanes];
#pragma GCC unroll 16
  for (int i = 0; i < kF32Lanes; ++i) sums[i] = First + i < N ? v[First + i < N ? First + i : 0] : F32{};
#pragma GCC unroll 4
  for (int half = kF32Lanes / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i)
      sums[i] = interleave_low<float>(sums[i], sums[i + half]) + interleave_high<float>(sums[i], sums[i + half]);
  return sums[0];
}

// The sums of all vectors, a lane each, from result `Next` on.
template <int Next, int N, int kVectors>
POLYCONV_INLINE void sum_all(const F32 (&sums)[N], F32 (&result)[kVectors]) {
  if constexpr (Next < kVectors) {
    result[Next] = sum_lanes<Next * kF32Lanes>(sums);
    sum_all<Next + 1>(sums, result);
  }
}

// Vectors of channels [c, end) of one tap's pixels; the last may have fewer than all lanes.
template <class From, int K, int P>
POLYCONV_INLINE void add_channels(const From *const (&pixels)[P], int64_t c, int lanes, const float *weights,
                                  F32 (&sums)[P * K]) {
  F32 filter[K];
  load_vectors(weights, filter);
#pragma GCC unroll 8
  for (int i = 0; i < P; ++i) {
    __builtin_prefetch(reinterpret_cast<const char *>(pixels[i] + c) + kFewAhead, 0, 2);
    const F32 pixel = lanes == kF32Lanes ? load_f32(pixels[i] + c) : load_f32_partial(pixels[i] + c, lanes);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) sums[i * K + k] = multiply_add(loaded(pixel), filter[k], sums[i * K + k]);
  }
}

// The sums of P results, [pixel][filter], in as many whole vectors as that takes.
template <class From, int K>
POLYCONV_INLINE void few_tile(const FewTile<From> &t, F32 (&result)[(kFewTile<K> * K + kF32Lanes - 1) / kF32Lanes]) {
  constexpr int kP = kFewTile<K>;
  F32 sums[kP * K] = {};
  const float *weights = t.weights;
  const int64_t step = t.step;
  for (int64_t line = 0; line < t.lines; ++line)
    for (int64_t tap = 0; tap < t.taps; ++tap) {
      const From *const *list = t.pixels + line * t.line_pixels + tap * t.dilation;
      const From *pixels[kP];
#pragma GCC unroll 8
      for (int i = 0; i < kP; ++i) pixels[i] = list[i * step] + t.channel;
      int64_t c = 0;
      for (; c + kF32Lanes <= t.channels; c += kF32Lanes, weights += K * kF32Lanes)
        add_channels<From, K>(pixels, c, kF32Lanes, weights, sums);
      if (c < t.channels) {
        add_channels<From, K>(pixels, c, static_cast<int>(t.channels - c), weights, sums);
        weights += K * kF32Lanes;
      }
    }
  sum_all<0>(sums, result);
}

} // namespace polyconv::cpu::POLYCONV_ISA
