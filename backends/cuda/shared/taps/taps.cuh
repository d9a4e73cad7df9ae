// taps.cuh - the kernel of cuda-shared/depthwise_taps as a template; taps_<type>.cu instantiate it. A thread goes from
// tap to tap: one vector of weights meets what four results of a row read, which comes from the caches, or where the
// next result read it through the tap before from registers. Rows and columns of taps that lie beside the image are
// left out, which are most where the dilation is large; and so are taps that a strided gradient does not meet, for
// results of a thread are a stride apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/grid.cuh"
#include "depthwise/filters.cuh"
#include "taps/taps.hpp"

namespace polyconv::cuda::shared {

template <int V>
using TapSums = float[kTapColumns][V];

template <class T, int V>
__device__ inline Channels<T, V> load_channels(const T *from) {
  return __ldg(reinterpret_cast<const Channels<T, V> *>(from));
}
// Of a tap's weights, which a block has in shared memory where they are raw.
template <class T, int V, bool Raw>
__device__ inline Channels<T, V> load_weights(const T *from) {
  return Raw ? *reinterpret_cast<const Channels<T, V> *>(from) : load_channels<T, V>(from);
}

// Whether any result of a strip reads inside the row through the tap by which its first one reads at `at`.
__device__ inline bool meets_row(const TapAxis &axis, int32_t at, int32_t apart) {
  return at + (kTapColumns - 1) * apart >= 0 && at < axis.size;
}

// A row of taps: `x` and `weights` are of its first tap and the thread's first channel, `across` is the first result's.
template <class T, int V, bool Raw>
__device__ inline void sum_row(const DepthwiseTaps &s, const T *x, const T *weights, const FirstTap &across,
                               TapSums<V> &sums) {
  const TapAxis &axis = s.axis[2];
  const int32_t apart = between_results(axis);
  int32_t at = across.at;
#pragma unroll 1
  for (int32_t tap = across.tap; tap < axis.taps; tap += axis.tap_step, at += axis.at_step) {
    if (!meets_row(axis, at, apart)) continue;
    Channels<T, V> words[kTapColumns];
#pragma unroll
    for (int i = 0; i < kTapColumns; ++i) {
      words[i] = {};
      if (is_there(axis, at + i * apart)) words[i] = load_channels<T, V>(x + (at + i * apart) * axis.stride);
    }
    float w[V];
    unpack<T>(load_weights<T, V, Raw>(weights + tap * s.pitch), w);
#pragma unroll
    for (int i = 0; i < kTapColumns; ++i) {
      float v[V];
      unpack<T>(words[i], v);
#pragma unroll
      for (int c = 0; c < V; ++c) sums[i][c] = fmaf(v[c], w[c], sums[i][c]);
    }
  }
}

// The same where taps step as far as results are apart (close_taps): word j of the strip meets result i through the
// tap j - i after the first, so that each is loaded and converted once, and those of some taps are under way together.
// Where taps step back, words and results are counted from the last: sums[0] is the last result's.
template <class T, int V, bool Raw>
__device__ inline void sum_close_row(const DepthwiseTaps &s, const T *x, const T *weights, const FirstTap &across,
                                     TapSums<V> &sums) {
  constexpr int kTogether = V * sizeof(float) > 16 ? 2 : 4, kKept = kTapColumns - 1; // what registers hold
  const TapAxis &axis = s.axis[2];
  const int32_t apart = between_results(axis), step = axis.at_step;
  int32_t first = across.at, at = step < 0 ? first + kKept * apart : first; // of the first result, of word 0
  const auto load = [&](int32_t place, float(&word)[V]) {
    Channels<T, V> packed = {};
    if (is_there(axis, place)) packed = load_channels<T, V>(x + place * axis.stride);
    unpack<T>(packed, word);
  };
  float words[kKept + kTogether][V];
#pragma unroll
  for (int j = 0; j < kKept; ++j) load(at + j * step, words[j]);
#pragma unroll 1
  for (int32_t tap = across.tap; tap < axis.taps;
       tap += kTogether * axis.tap_step, at += kTogether * step, first += kTogether * step) {
    Channels<T, V> packed[kTogether] = {};
#pragma unroll
    for (int j = 0; j < kTogether; ++j)
      if (tap + j * axis.tap_step < axis.taps)
        packed[j] = load_weights<T, V, Raw>(weights + (tap + j * axis.tap_step) * s.pitch);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) load(at + (kKept + j) * step, words[kKept + j]);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      if (tap + j * axis.tap_step >= axis.taps || !meets_row(axis, first + j * step, apart)) continue;
      float w[V];
      unpack<T>(packed[j], w);
#pragma unroll
      for (int i = 0; i < kTapColumns; ++i)
#pragma unroll
        for (int c = 0; c < V; ++c) sums[i][c] = fmaf(words[i + j][c], w[c], sums[i][c]);
    }
#pragma unroll
    for (int j = 0; j < kKept; ++j)
#pragma unroll
      for (int c = 0; c < V; ++c) words[j][c] = words[j + kTogether][c];
  }
}

// Counts results from the other end.
template <int V>
__device__ inline void reverse(TapSums<V> &sums) {
#pragma unroll
  for (int i = 0; i < kTapColumns / 2; ++i)
#pragma unroll
    for (int c = 0; c < V; ++c) {
      const float sum = sums[i][c];
      sums[i][c] = sums[kTapColumns - 1 - i][c], sums[kTapColumns - 1 - i][c] = sum;
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

// The first result of a thread.
template <int V>
__device__ inline Place<int32_t> first_result(const DepthwiseTaps &s, int32_t thread) {
  const int32_t strip = s.lanes(thread), row = s.strips(strip), set = s.rows(row), plane = s.sets(set),
                n = s.planes(plane);
  const int32_t chunk = (set - plane * s.sets.by) * s.lanes.by + thread - strip * s.lanes.by;
  const int32_t in_row = strip - row * s.strips.by, phase = s.residues(in_row), residue = in_row - phase * s.phases;
  return {n, chunk * V, plane - n * s.planes.by, row - set * s.rows.by, residue + phase * kTapColumns * s.phases};
}

// Brings a block's filters into shared memory, tap by tap; where those of a thread are, `chunk` of its channels.
template <class T, int V>
__device__ inline const T *stage_taps(const DepthwiseTaps &s, const T *raw, int32_t chunk) {
  extern __shared__ __align__(16) unsigned char room[];
  T *const staged = reinterpret_cast<T *>(room);
  const int32_t thread = static_cast<int32_t>(blockIdx.x) * kTapThreads, lane = thread - s.lanes(thread) * s.lanes.by;
  const int32_t first = first_staged<T, V>(first_result<V>(s, thread).c / V, lane, s.lanes.by);
  each_raw_weight < V<4 ? V : 4>(
                        s.filters, raw, first * V, s.filters.staged * V, s.filters.chunks * V,
                        [&](int32_t tap, int32_t c, T weight) { staged[tap * s.pitch + c] = weight; });
  __syncthreads();
  return staged + place_among_staged(s.filters, chunk, first) * V;
}

template <class T, int V, TapsEnd End, bool Close>
__global__ void __launch_bounds__(kTapThreads, 4)
    sum_taps(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ DepthwiseTaps s, const T *x,
             const T *weights, T *y) {
  ptx::await_previous();
  constexpr bool kRaw = End == TapsEnd::kPlainOfRaw;
  const int32_t thread = static_cast<int32_t>(blockIdx.x) * kTapThreads + static_cast<int32_t>(threadIdx.x);
  if (thread >= s.threads && !kRaw) return;
  const Place<int32_t> at = first_result<V>(s, kRaw ? min(thread, s.threads - 1) : thread);
  if constexpr (kRaw) {
    weights = stage_taps<T, V>(s, weights, at.c / V);
    if (thread >= s.threads) return; // it has helped
  } else {
    weights += at.c;
  }
  TapSums<V> sums = {};
  x += s.offset + at.n * s.image + at.c;
  const FirstTap first(s.axis[0], at.d), down(s.axis[1], at.h), across(s.axis[2], at.w);
#pragma unroll 1
  for (int32_t a = first.tap, d = first.at; a < s.axis[0].taps; a += s.axis[0].tap_step, d += s.axis[0].at_step) {
    if (!is_there(s.axis[0], d)) continue;
#pragma unroll 1
    for (int32_t b = down.tap, h = down.at; b < s.axis[1].taps; b += s.axis[1].tap_step, h += s.axis[1].at_step) {
      if (!is_there(s.axis[1], h)) continue;
      const T *const row = x + d * s.axis[0].stride + h * s.axis[1].stride;
      const T *const taps = weights + (a * s.axis[1].taps + b) * s.axis[2].taps * s.pitch;
      if constexpr (Close)
        sum_close_row<T, V, kRaw>(s, row, taps, across, sums);
      else
        sum_row<T, V, kRaw>(s, row, taps, across, sums);
    }
  }
  if (Close && s.axis[2].at_step < 0) reverse<V>(sums);
  if constexpr (End == TapsEnd::kAny)
    store_any<V>(p, s, sums, y, at);
  else
    store_plain<T, V>(p, s, sums, y, at);
}

template <class T, int V, TapsEnd End>
void launch_taps(const Conv<int32_t> &p, const DepthwiseTaps &s, const void *x, const void *weights, void *y,
                 cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_div(s.threads, kTapThreads));
  launch_waiting(s.close ? sum_taps<T, V, End, true> : sum_taps<T, V, End, false>, blocks, kTapThreads,
                 static_cast<size_t>(s.filters.room), stream, p, s, static_cast<const T *>(x),
                 static_cast<const T *>(weights), static_cast<T *>(y));
}

template <class T, int V>
TapsLaunch taps_by_ending(TapsEnd end) {
  return end == TapsEnd::kPlain        ? launch_taps<T, V, TapsEnd::kPlain>
         : end == TapsEnd::kPlainOfRaw ? launch_taps<T, V, TapsEnd::kPlainOfRaw>
                                       : launch_taps<T, V, TapsEnd::kAny>;
}

template <class T>
TapsLaunch find_taps(int channels, TapsEnd end) {
  if constexpr (sizeof(T) == 2)
    if (channels == 8) return taps_by_ending<T, 8>(end);
  return channels == 4   ? taps_by_ending<T, 4>(end)
         : channels == 2 ? taps_by_ending<T, 2>(end)
         : channels == 1 ? taps_by_ending<T, 1>(end)
                         : nullptr;
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::TapsLaunch shared::find_taps<T>(int, TapsEnd);
