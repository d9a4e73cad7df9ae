// taps.cuh - the kernel of cuda-shared/depthwise_taps as a template; taps_<type>.cu instantiate it. A thread goes from
// tap to tap: one vector of weights meets the inputs of four columns of outputs, which come from the caches. Rows and
// columns of taps that lie in the padding are left out, which are most where the dilation is large.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "depthwise/channels.cuh"
#include "depthwise/taps.hpp"

namespace polyconv::cuda::shared {

template <int V>
using TapSums = float[kTapColumns][V];

// A row of taps: `x` and `weights` are of its first tap and the thread's first channel, `column` is the first output's.
template <class T, int V>
__device__ inline void sum_row(const Conv<int32_t> &p, const T *x, const T *weights, int32_t column, TapSums<V> &sums) {
  const int32_t width = p.input.size[4], pixel = p.input.stride[4], apart = p.stride[2];
  int32_t at = column * apart - p.pad[2];
#pragma unroll 1
  for (int32_t tap = 0; tap < p.weights.size[4]; ++tap, at += p.dilation[2], weights += p.weights.size[0]) {
    if (at + (kTapColumns - 1) * apart < 0 || at >= width) continue;
    Channels<T, V> words[kTapColumns];
#pragma unroll
    for (int i = 0; i < kTapColumns; ++i) {
      const int32_t w = at + i * apart;
      words[i] = {};
      if (static_cast<uint32_t>(w) < static_cast<uint32_t>(width))
        words[i] = __ldg(reinterpret_cast<const Channels<T, V> *>(x + w * pixel));
    }
    float w[V];
    unpack<T>(__ldg(reinterpret_cast<const Channels<T, V> *>(weights)), w);
#pragma unroll
    for (int i = 0; i < kTapColumns; ++i) {
      float v[V];
      unpack<T>(words[i], v);
#pragma unroll
      for (int c = 0; c < V; ++c) sums[i][c] = fmaf(v[c], w[c], sums[i][c]);
    }
  }
}

// Bias, bounds, and vectors of results.
template <class T, int V>
__device__ inline void store_plain(const Conv<int32_t> &p, const DepthwiseTaps &s, TapSums<V> &sums, T *y,
                                   const Place<int32_t> &at) {
  const auto *const biases = static_cast<const float *>(p.epilogue.bias);
  float bias[V];
#pragma unroll
  for (int c = 0; c < V; ++c) bias[c] = biases != nullptr ? biases[at.c + c] : -0.0f; // which changes nothing
  T *const to = y + p.result.at(at);
#pragma unroll
  for (int i = 0; i < kTapColumns; ++i) {
    if (at.w + i >= p.result.size[4]) break;
#pragma unroll
    for (int c = 0; c < V; ++c) {
      const float v = cuda::add(sums[i][c], bias[c]);
      sums[i][c] = v < s.low ? s.low : v > s.high ? s.high : v; // NaN stays
    }
    *reinterpret_cast<Channels<T, V> *>(to + i * p.result.stride[4]) = pack<T>(sums[i]);
  }
}

// Any other ending, one by one from the thread's own places in shared memory: it is much code, there once.
template <int V>
__device__ inline void store_any(const Conv<int32_t> &p, const TapSums<V> &sums, void *y, const Place<int32_t> &at) {
  __shared__ float values[kTapColumns * V][kTapThreads];
#pragma unroll
  for (int i = 0; i < kTapColumns * V; ++i) values[i][threadIdx.x] = sums[i / V][i % V];
#pragma unroll 1
  for (int i = 0; i < kTapColumns * V; ++i) {
    const Place<int32_t> place = {at.n, at.c + i % V, at.d, at.h, at.w + i / V};
    if (place.w < p.result.size[4]) finish_and_store(p, y, values[i][threadIdx.x], place);
  }
}

template <class T, int V, bool Plain>
__global__ void __launch_bounds__(kTapThreads)
    sum_taps(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ DepthwiseTaps s, const T *x,
             const T *weights, T *y) {
  const int32_t i = static_cast<int32_t>(blockIdx.x) * kTapThreads + static_cast<int32_t>(threadIdx.x);
  if (i >= s.threads) return;
  const int32_t strip = s.chunks(i), row = s.strips(strip), plane = s.rows(row), n = s.planes(plane);
  const Place<int32_t> at = {n, (i - strip * s.chunks.by) * V, plane - n * s.planes.by, row - plane * s.rows.by,
                             (strip - row * s.strips.by) * kTapColumns};
  TapSums<V> sums = {};
  x += p.input.offset + n * p.input.stride[0] + at.c;
  weights += at.c;
#pragma unroll 1
  for (int32_t a = 0; a < p.weights.size[2]; ++a) {
    const int32_t d = at.d * p.stride[0] - p.pad[0] + a * p.dilation[0];
    if (static_cast<uint32_t>(d) >= static_cast<uint32_t>(p.input.size[2])) continue;
#pragma unroll 1
    for (int32_t b = 0; b < p.weights.size[3]; ++b) {
      const int32_t h = at.h * p.stride[1] - p.pad[1] + b * p.dilation[1];
      if (static_cast<uint32_t>(h) >= static_cast<uint32_t>(p.input.size[3])) continue;
      sum_row<T, V>(p, x + d * p.input.stride[2] + h * p.input.stride[3],
                    weights + (a * p.weights.size[3] + b) * p.weights.size[4] * p.weights.size[0], at.w, sums);
    }
  }
  if constexpr (Plain)
    store_plain<T, V>(p, s, sums, y, at);
  else
    store_any<V>(p, sums, y, at);
}

template <class T, int V, bool Plain>
void launch_taps(const Conv<int32_t> &p, const DepthwiseTaps &s, const void *x, const void *weights, void *y,
                 cudaStream_t stream) {
  sum_taps<T, V, Plain><<<static_cast<unsigned>(ceil_div(s.threads, kTapThreads)), kTapThreads, 0, stream>>>(
      p, s, static_cast<const T *>(x), static_cast<const T *>(weights), static_cast<T *>(y));
  check_launch("cuda-shared/depthwise_taps");
}

template <class T, int V>
TapsLaunch taps_by_ending(bool plain) {
  return plain ? launch_taps<T, V, true> : launch_taps<T, V, false>;
}

template <class T>
TapsLaunch find_taps(int channels, bool plain) {
  if constexpr (sizeof(T) == 2)
    if (channels == 8) return taps_by_ending<T, 8>(plain);
  return channels == 4   ? taps_by_ending<T, 4>(plain)
         : channels == 2 ? taps_by_ending<T, 2>(plain)
         : channels == 1 ? taps_by_ending<T, 1>(plain)
                         : nullptr;
}

} // namespace polyconv::cuda::shared
