// filters.cuh - weights of depthwise layers on the device (filters.hpp): raw ones brought into a block's shared memory
// and from there into registers, and the packing of all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/async.cuh"
#include "depthwise/channels.cuh"
#include "depthwise/filters.hpp"

namespace polyconv::cuda::shared {

// ---------------------------------------------------------------- raw filters

// The chunk that a block's staged ones begin with. `chunk`: its first thread's, lane `lane` of `lanes`.
template <class T, int channels>
__device__ inline int32_t first_staged(int32_t chunk, int32_t lane, int32_t lanes) {
  constexpr int32_t kTogether = 16 / (channels * int32_t{sizeof(T)}); // chunks of filters that begin at 16 bytes
  return lanes < static_cast<int32_t>(blockDim.x) ? chunk - lane : chunk / kTogether * kTogether;
}

// Where a thread's chunk is among the staged ones.
__device__ inline int32_t place_among_staged(const Filters &f, int32_t chunk, int32_t first) {
  return chunk < first ? chunk - first + f.chunks : chunk - first;
}

// Begins to copy the filters of a block's chunks, as they lie. They are there once every thread has awaited its copies
// and all have met.
template <class T, int channels>
__device__ inline void stage_filters(const Filters &f, int32_t first, const T *raw, T *staged) {
  const uint32_t chunk = f.taps.by * channels * uint32_t{sizeof(T)}; // bytes of its filters
  const uint32_t all = f.chunks * chunk, begin = first * chunk, bytes = f.staged * chunk;
  const auto *const from = reinterpret_cast<const char *>(raw + f.first);
  const auto copy = [&](auto word) {
    constexpr uint32_t kWord = sizeof word;
    for (uint32_t i = threadIdx.x * kWord; i < bytes; i += blockDim.x * kWord) {
      const uint32_t at = begin + i < all ? begin + i : begin + i - all;
      char *const to = reinterpret_cast<char *>(staged) + i;
      if constexpr (kWord >= 4)
        copy_async_or_zero<kWord>(to, from + at, 1);
      else
        *reinterpret_cast<decltype(word) *>(to) = *reinterpret_cast<const decltype(word) *>(from + at);
    }
  };
  const uint32_t ends = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) | all;
  if (ends % 16 == 0)
    copy(uint4{});
  else if (ends % 4 == 0)
    copy(uint32_t{});
  else
    copy(uint16_t{});
}

// The filters of a thread's channels, which begin at `staged`, by taps.
template <class T, int taps, int channels>
__device__ inline void load_staged(const Filters &f, const T *staged, float (&w)[taps][channels]) {
#pragma unroll
  for (int j = 0; j < taps; ++j) {
    float some[channels];
    unpack<T>(reinterpret_cast<const Channels<T, channels> *>(staged)[j], some);
#pragma unroll
    for (int i = 0; i < channels; ++i) w[(j * channels + i) % taps][(j * channels + i) / taps] = some[i];
  }
  if (f.reversed == 0) return;
#pragma unroll
  for (int tap = 0; tap < taps / 2; ++tap)
#pragma unroll
    for (int i = 0; i < channels; ++i) {
      const float later = w[taps - 1 - tap][i];
      w[taps - 1 - tap][i] = w[tap][i], w[tap][i] = later;
    }
}

// Calls put(tap, channel, weight) for `channels` of a block from `first` on, counted from 0; behind the last of `all`
// come the first ones, and where those are too few any. Neighbouring threads have `together` channels, then taps: whole
// sectors of what they read, and where they write tap by tap, few words of the same bank.
template <int together, class T, class Put>
__device__ inline void each_raw_weight(const Filters &f, const T *raw, int32_t first, int32_t channels, int32_t all,
                                       const Put &put) {
  raw += f.first;
  const int32_t count = channels * f.taps.by, last = f.taps.by - 1;
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < count; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t some = f.taps(i / together), tap = i / together - some * f.taps.by;
    const int32_t c = some * together + i % together, k = first + c < all ? first + c : first + c - all;
    put(tap, c, raw[min(k, all - 1) * f.taps.by + (f.reversed != 0 ? last - tap : tap)]);
  }
}

// ---------------------------------------------------------------- packed: tap by tap, every channel's

template <class T>
static __global__ void __launch_bounds__(256)
    copy_taps(const View<int32_t> weights, const T *raw, T *packed, int32_t count) {
  const int32_t step = static_cast<int32_t>(gridDim.x) * 256;
  for (int32_t i = static_cast<int32_t>(blockIdx.x) * 256 + static_cast<int32_t>(threadIdx.x); i < count; i += step) {
    const int32_t tap = i / weights.size[0], channel = i - tap * weights.size[0], line = tap / weights.size[4],
                  plane = line / weights.size[3];
    packed[i] = raw[weights.at(channel, 0, plane, line - plane * weights.size[3], tap - line * weights.size[4])];
  }
}

// Weights of one filter a channel, of 16 or 32 bits.
inline void pack_taps(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const auto count = static_cast<int32_t>(sdk::elements(l.weights));
  const auto go = [&](auto element) {
    using T = decltype(element);
    copy_taps<<<blocks_for(count, 256), 256, 0, stream>>>(View<int32_t>(l.weights), static_cast<const T *>(raw),
                                                          static_cast<T *>(packed), count);
  };
  l.weights.type == POLYCONV_F32 ? go(uint32_t{}) : go(uint16_t{});
  check_launch("the weights of a depthwise layer, tap by tap");
}

} // namespace polyconv::cuda::shared
