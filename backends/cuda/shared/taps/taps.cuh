// taps.cuh - the kernel of cuda-shared/depthwise_taps as a template; taps_<type>.cu instantiate it. A thread goes from
// tap to tap: one vector of weights meets what four results of a row read, which comes from the caches. Rows and
// columns of taps that lie beside the image are left out, which are most where the dilation is large; and so are taps
// that a strided gradient does not meet, for results of a thread are a stride apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/grid.cuh"
#include "depthwise/channels.cuh"
#include "taps/taps.hpp"

namespace polyconv::cuda::shared {

template <int V>
using TapSums = float[kTapColumns][V];

// A row of taps: `x` and `weights` are of its first tap and the thread's first channel, `across` is the first result's.
template <class T, int V>
__device__ inline void sum_row(const DepthwiseTaps &s, const T *x, const T *weights, const FirstTap &across,
                               TapSums<V> &sums) {
  const TapAxis &axis = s.axis[2];
  const int32_t apart = axis.by == 1 ? axis.scale : 1; // from one result to the next
  int32_t at = across.at;
#pragma unroll 1
  for (int32_t tap = across.tap; tap < axis.taps; tap += axis.tap_step, at += axis.at_step) {
    if (at + (kTapColumns - 1) * apart < 0 || at >= axis.size) continue;
    Channels<T, V> words[kTapColumns];
#pragma unroll
    for (int i = 0; i < kTapColumns; ++i) {
      words[i] = {};
      if (is_there(axis, at + i * apart))
        words[i] = __ldg(reinterpret_cast<const Channels<T, V> *>(x + (at + i * apart) * axis.stride));
    }
    float w[V];
    unpack<T>(__ldg(reinterpret_cast<const Channels<T, V> *>(weights + tap * s.filters)), w);
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
    if (at.w + i * s.phases >= p.result.size[4]) break;
#pragma unroll
    for (int c = 0; c < V; ++c) {
      sums[i][c] = s.bounds(cuda::add(sums[i][c], bias[c]));
    }
    *reinterpret_cast<Channels<T, V> *>(to + i * s.phases * p.result.stride[4]) = pack<T>(sums[i]);
  }
}

// Any other ending, one by one from the thread's own places in shared memory: it is much code, there once.
template <int V>
__device__ inline void store_any(const Conv<int32_t> &p, const DepthwiseTaps &s, const TapSums<V> &sums, void *y,
                                 const Place<int32_t> &at) {
  __shared__ float values[kTapColumns * V][kTapThreads];
#pragma unroll
  for (int i = 0; i < kTapColumns * V; ++i) values[i][threadIdx.x] = sums[i / V][i % V];
#pragma unroll 1
  for (int i = 0; i < kTapColumns * V; ++i) {
    const Place<int32_t> place = {at.n, at.c + i % V, at.d, at.h, at.w + i / V * s.phases};
    if (place.w < p.result.size[4]) finish_and_store(p, y, values[i][threadIdx.x], place);
  }
}

template <class T, int V, bool Plain>
__global__ void __launch_bounds__(kTapThreads)
    sum_taps(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ DepthwiseTaps s, const T *x,
             const T *weights, T *y) {
  ptx::await_previous();
  const int32_t i = static_cast<int32_t>(blockIdx.x) * kTapThreads + static_cast<int32_t>(threadIdx.x);
  if (i >= s.threads) return;
  const int32_t strip = s.chunks(i), row = s.strips(strip), plane = s.rows(row), n = s.planes(plane);
  const int32_t in_row = strip - row * s.strips.by, set = s.residues(in_row), residue = in_row - set * s.phases;
  const Place<int32_t> at = {n, (i - strip * s.chunks.by) * V, plane - n * s.planes.by, row - plane * s.rows.by,
                             residue + set * kTapColumns * s.phases};
  TapSums<V> sums = {};
  x += s.offset + n * s.image + at.c;
  weights += at.c;
  const FirstTap first(s.axis[0], at.d), down(s.axis[1], at.h), across(s.axis[2], at.w);
#pragma unroll 1
  for (int32_t a = first.tap, d = first.at; a < s.axis[0].taps; a += s.axis[0].tap_step, d += s.axis[0].at_step) {
    if (!is_there(s.axis[0], d)) continue;
#pragma unroll 1
    for (int32_t b = down.tap, h = down.at; b < s.axis[1].taps; b += s.axis[1].tap_step, h += s.axis[1].at_step)
      if (is_there(s.axis[1], h))
        sum_row<T, V>(s, x + d * s.axis[0].stride + h * s.axis[1].stride,
                      weights + (a * s.axis[1].taps + b) * s.axis[2].taps * s.filters, across, sums);
  }
  if constexpr (Plain)
    store_plain<T, V>(p, s, sums, y, at);
  else
    store_any<V>(p, s, sums, y, at);
}

template <class T, int V, bool Plain>
void launch_taps(const Conv<int32_t> &p, const DepthwiseTaps &s, const void *x, const void *weights, void *y,
                 cudaStream_t stream) {
  launch_waiting(sum_taps<T, V, Plain>, static_cast<unsigned>(ceil_div(s.threads, kTapThreads)), kTapThreads, 0, stream,
                 p, s, static_cast<const T *>(x), static_cast<const T *>(weights), static_cast<T *>(y));
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

#define POLYCONV_INSTANCE(T) template shared::TapsLaunch shared::find_taps<T>(int, bool);
