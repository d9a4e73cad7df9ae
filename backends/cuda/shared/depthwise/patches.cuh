// patches.cuh - depthwise layers of any window: a block has the weights of a slice of channels in shared
// memory and goes from patch to patch, the next on its way while one is summed. A thread has a chunk of 16 bytes of
// channels of four pixels.
//
// Floor: one read and one write of every element; or what a multiprocessor issues: a tap of a thread's four pixels is
// 4 loads of x, 2 of weights, and of each of its channels 4 products and, of 16 bits, 4 conversions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/pairs.cuh"
#include "common/patches.cuh"
#include "common/ptx/grid.cuh"
#include "depthwise/filters.cuh"
#include "depthwise/patches.hpp"

namespace polyconv::cuda::shared {

template <class T>
inline constexpr int kVector = 16 / int{sizeof(T)}; // channels of a chunk

template <class T>
using ThreadSums = float[kThreadPixels][kVector<T>];

__device__ inline void unpack(const uint4 &chunk, float (&to)[4], float) {
  to[0] = __uint_as_float(chunk.x), to[1] = __uint_as_float(chunk.y);
  to[2] = __uint_as_float(chunk.z), to[3] = __uint_as_float(chunk.w);
}
__device__ inline float2 unpack_pair(uint32_t word, __half) {
  return __half22float2(reinterpret_cast<const __half2 &>(word));
}
__device__ inline float2 unpack_pair(uint32_t word, __nv_bfloat16) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 &>(word));
}
template <class T>
__device__ inline void unpack(const uint4 &chunk, float (&to)[8], T) {
  const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack_pair(words[i], T());
    to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
  }
}
__device__ inline uint4 packed_chunk(const float (&from)[4], float) {
  return make_uint4(__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]),
                    __float_as_uint(from[3]));
}
template <class T>
__device__ inline uint4 packed_chunk(const float (&from)[8], T) {
  return make_uint4(pair_of(from[0], from[1], T()), pair_of(from[2], from[3], T()), pair_of(from[4], from[5], T()),
                    pair_of(from[6], from[7], T()));
}

// Shared memory of a block.
struct DepthwiseRoom {
  unsigned char *stages;
  float *weights; // [tap][four channels of every chunk, then the other four][chunk]
  PatchTables tables;
  int32_t *shifts; // of taps, in bytes of a patch

  __device__ DepthwiseRoom(unsigned char *shared, const DepthwisePatches &p)
      : stages(shared),
        weights(reinterpret_cast<float *>(shared + 2 * p.stage_bytes())),
        tables(shared + 2 * p.stage_bytes() + p.weights_bytes(), p.patches),
        shifts(tables.origins + p.patches.pixels) {}

  // `channel`: the slice's first. Weights beyond the last channel's meet no input.
  template <class T>
  __device__ void fill(const DepthwisePatches &p, int32_t channel) const {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const Patches &at = p.patches;
    tables.fill(at);
    for (int32_t tap = thread; tap < at.all_taps(); tap += kPatchThreads)
      shifts[tap] = PatchTables::shift_of(at, tap) * p.pitch();
    ptx::let_next_begin(), ptx::await_previous(); // the weights may be new
    const int32_t row = p.chunks * p.vector, pitch = p.weights_pitch();
    const auto put = [&](int32_t tap, int32_t c, float weight) {
      const int32_t chunk = c / p.vector, e = c % p.vector;
      weights[tap * pitch + (e / 4 * p.chunks + chunk) * 4 + e % 4] = weight;
    };
    if (p.filters.raw != 0) {
      each_raw_weight<4>(p.filters, static_cast<const T *>(p.weights), channel, row, p.row_channels,
                         [&](int32_t tap, int32_t c, T weight) { put(tap, c, value(weight)); });
      return;
    }
    const auto *const packed = static_cast<const float *>(p.weights);
    for (int32_t i = thread; i < at.all_taps() * row; i += kPatchThreads) {
      const int32_t tap = i / row, c = i - tap * row;
      put(tap, c, channel + c < p.row_channels ? packed[int64_t{tap} * p.row_channels + channel + c] : 0);
    }
  }
};

// The windows of a thread's pixels, tap by tap.
template <class T>
__device__ inline void sum_windows(ThreadSums<T> &sums, const DepthwisePatches &p, const DepthwiseRoom &room,
                                   const unsigned char *stage, int32_t chunk, const int32_t (&windows)[kThreadPixels]) {
  const float *weights = room.weights + chunk * 4;
  const int32_t taps = p.patches.all_taps(), half = p.chunks * 4, pitch = p.weights_pitch();
#pragma unroll 2
  for (int32_t tap = 0; tap < taps; ++tap, weights += pitch) {
    const unsigned char *const from = stage + room.shifts[tap] + chunk * 16;
    float w[kVector<T>];
#pragma unroll
    for (int i = 0; i < kVector<T>; i += 4) {
      const float4 four = *reinterpret_cast<const float4 *>(weights + i / 4 * half);
      w[i] = four.x, w[i + 1] = four.y, w[i + 2] = four.z, w[i + 3] = four.w;
    }
#pragma unroll
    for (int pixel = 0; pixel < kThreadPixels; ++pixel) {
      float x[kVector<T>];
      unpack(*reinterpret_cast<const uint4 *>(from + windows[pixel]), x, T());
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) sums[pixel][i] = fmaf(x[i], w[i], sums[pixel][i]);
    }
  }
}

// One pixel's channels of a chunk into memory. `channel`: the chunk's first.
template <class T>
__device__ inline void store_chunk(const DepthwisePatches &p, float (&sums)[kVector<T>], const Place<int64_t> &pixel,
                                   int32_t channel) {
  const auto channels = static_cast<int32_t>(p.conv.result.size[1]);
  if (!p.plain) {
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i) {
      Place<int64_t> at = pixel;
      at.c = channel + i;
      if (at.c < channels) finish_and_store(p.conv, p.result, sums[i], at);
    }
    return;
  }
  const auto *const bias = static_cast<const float *>(p.conv.epilogue.bias);
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i) {
    if (bias != nullptr) sums[i] = add(sums[i], bias[channel + i]);
    sums[i] = sums[i] < p.low ? p.low : sums[i] > p.high ? p.high : sums[i]; // NaN stays
  }
  const int64_t to = pixel.n * p.result_image + pixel.d * p.result_stride[0] + pixel.h * p.result_stride[1] +
                     pixel.w * p.result_stride[2] + channel;
  *reinterpret_cast<uint4 *>(static_cast<T *>(p.result) + p.conv.result.offset + to) = packed_chunk(sums, T());
}

// All pixels of a patch.
template <class T>
__device__ inline void sum_patch(const DepthwisePatches &p, const DepthwiseRoom &room, const PatchBegin &begin,
                                 const unsigned char *stage, int32_t slice) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t chunk = thread & (p.chunks - 1), rows = kPatchThreads / p.chunks;
  const int32_t channel = (slice * p.chunks + chunk) * kVector<T>;
  for (int32_t first = thread / p.chunks; first < p.patches.tile_pixels(); first += kThreadPixels * rows) {
    int32_t windows[kThreadPixels];
#pragma unroll
    for (int i = 0; i < kThreadPixels; ++i)
      windows[i] = room.tables.origins[min(first + i * rows, p.patches.pixels - 1)] * p.pitch();
    ThreadSums<T> sums = {};
    sum_windows<T>(sums, p, room, stage, chunk, windows);
#pragma unroll
    for (int i = 0; i < kThreadPixels; ++i) {
      if (first + i * rows >= p.patches.tile_pixels()) break;
      const Packed pixel(room.tables.targets[first + i * rows]);
      const Place<int64_t> at = {begin.n + pixel.n, 0, begin.out[0] + pixel.at[0], begin.out[1] + pixel.at[1],
                                 begin.out[2] + pixel.at[2]};
      if (at.n < p.patches.images && at.d < p.patches.out[0] && at.h < p.patches.out[1] && at.w < p.patches.out[2] &&
          channel < p.conv.result.size[1])
        store_chunk<T>(p, sums[i], at, channel);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kPatchThreads, 2) sum_depthwise(const __grid_constant__ DepthwisePatches p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const DepthwiseRoom room(shared, p);
  const int32_t share = static_cast<int32_t>(blockIdx.x) / p.slices;
  const int32_t slice = static_cast<int32_t>(blockIdx.x) - share * p.slices, channel = slice * p.chunks * kVector<T>;
  room.fill<T>(p, channel);
  const auto first = static_cast<int32_t>(int64_t{p.patches.count} * share / p.shares);
  const auto last = static_cast<int32_t>(int64_t{p.patches.count} * (share + 1) / p.shares);
  const SliceChannels channels = {p.chunks, channel, static_cast<int32_t>(p.conv.input.size[1])};
  const auto fetch = [&](int32_t patch, unsigned char *to) {
    if (patch < last)
      fetch_windows<T>(p.patches, p.x, channels, PatchBegin(p.patches, patch), room.tables, to, p.pitch());
    commit_copies();
  };
  __syncthreads(); // the tables are there
  fetch(first, room.stages);
  for (int32_t patch = first, stage = 0; patch < last; ++patch, stage ^= 1) {
    fetch(patch + 1, room.stages + (stage ^ 1) * p.stage_bytes());
    await_groups<1>();
    __syncthreads();
    sum_patch<T>(p, room, PatchBegin(p.patches, patch), room.stages + stage * p.stage_bytes(), slice);
    __syncthreads(); // nobody reads the stage any more
  }
}

// ---------------------------------------------------------------- weights: tap by tap, every channel's, as f32

template <class T>
__global__ void __launch_bounds__(256)
    unpack_taps(const View<int64_t> weights, const T *raw, float *packed, int32_t row, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * 256;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; i < count; i += step) {
    const int64_t tap = i / row, channel = i - tap * row, line = tap / weights.size[4];
    packed[i] = value(
        raw[weights.at(channel, 0, line / weights.size[3], line % weights.size[3], tap - line * weights.size[4])]);
  }
}

// ---------------------------------------------------------------- launch

template <class T>
DepthwiseLauncher depthwise_launcher() {
  const auto pack = [](const polyconv_layer &l, const DepthwisePatches &p, const void *raw, float *packed,
                       cudaStream_t stream) {
    const int64_t count = int64_t{p.patches.all_taps()} * p.row_channels;
    unpack_taps<<<blocks_for(count, 256), 256, 0, stream>>>(View<int64_t>(l.weights), static_cast<const T *>(raw),
                                                            packed, p.row_channels, count);
    check_launch("the weights of cuda-shared/depthwise_patches");
  };
  const auto prepare = [] { allow_shared(sum_depthwise<T>, kLentShared); };
  const auto launch = [](const DepthwisePatches &p, cudaStream_t stream) {
    launch_early_if(p.early, sum_depthwise<T>, static_cast<unsigned>(p.slices * p.shares), kPatchThreads,
                    p.shared_bytes(), stream, p);
  };
  return {pack, prepare, launch};
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::DepthwiseLauncher shared::depthwise_launcher<T>();
