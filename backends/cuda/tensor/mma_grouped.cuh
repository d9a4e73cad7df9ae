// mma_grouped.cuh - small groups: a block has the weights of 64 channels in shared memory and goes from patch to patch
// of the images, halo included, of which the next is copied in while one is multiplied. Each warp has the pixels of one
// group. A matrix of the instruction is 16 pixels x 8 channels of one tap, so that groups of 8 channels waste nothing
// but half of the last instruction where taps are odd. What a position, pixel or chunk of k adds to an address is the
// same in every patch, and comes from tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/async.cuh"
#include "mma_fragments.cuh"
#include "mma_grouped.hpp"

namespace polyconv::cuda::tensor {

// Shared memory of a block. Coordinates are y << 16 | x; shifts and windows are bytes in a patch.
struct GroupedRoom {
  unsigned char *patches, *zeros, *results, *weights;
  int32_t *sources, *targets, *windows, *shifts; // of positions, pixels, pixels, chunks

  __device__ GroupedRoom(unsigned char *shared, const GroupedProduct &p) : patches(shared) {
    zeros = patches + 2 * p.positions() * kPositionBytes;
    results = zeros + kPositionBytes;
    weights = results + p.tile_pixels() * kPositionBytes;
    sources = reinterpret_cast<int32_t *>(weights + p.weights_bytes);
    targets = sources + p.positions();
    windows = targets + p.tile_pixels();
    shifts = windows + p.tile_pixels();
  }

  // What stays for all patches. `chunks`: of a tap.
  __device__ void fill(const GroupedProduct &p, int slice, int chunks) const {
    const auto thread = static_cast<int>(threadIdx.x);
    const char *const from = static_cast<const char *>(p.weights) + static_cast<int64_t>(slice) * p.weights_bytes;
    for (int i = thread * kChunk; i < p.weights_bytes; i += kGroupedThreads * kChunk)
      copy_async<kChunk>(weights + i, from + i, true);
    if (thread < kPositionBytes / 4) reinterpret_cast<int32_t *>(zeros)[thread] = 0;
    for (int i = thread; i < p.positions(); i += kGroupedThreads) sources[i] = i / p.patch[1] << 16 | i % p.patch[1];
    for (int i = thread; i < p.tile_pixels(); i += kGroupedThreads) {
      const int y = i / p.tile[1], x = i % p.tile[1];
      targets[i] = y << 16 | x;
      windows[i] = (y * p.stride[0] * p.patch[1] + x * p.stride[1]) * kPositionBytes;
    }
    for (int q = thread; q < p.chunks; q += kGroupedThreads) {
      const int tap = q / chunks, r = tap / p.taps[1], s = tap % p.taps[1];
      shifts[q] = (r * p.dilation[0] * p.patch[1] + s * p.dilation[1]) * kPositionBytes + q % chunks * kChunk;
    }
  }
};

// Which image, which outputs.
struct Patch {
  int32_t n, h, w;

  __device__ Patch(const GroupedProduct &p, int32_t i) {
    w = i % p.tiles[1] * p.tile[1], i /= p.tiles[1];
    h = i % p.tiles[0] * p.tile[0];
    n = i / p.tiles[0];
  }
};

// `input`: of the block's channels.
template <class T>
__device__ inline void fetch_patch(const GroupedProduct &p, const T *input, const Patch &at, const GroupedRoom &room,
                                   unsigned char *to) {
  const int32_t h0 = at.h * p.stride[0] - p.pad[0], w0 = at.w * p.stride[1] - p.pad[1];
  const int chunk = static_cast<int>(threadIdx.x) % 8;
  const T *const image = input + at.n * p.in_image + chunk * 8;
  for (int i = static_cast<int>(threadIdx.x) / 8; i < p.positions(); i += kGroupedThreads / 8) {
    const int32_t h = h0 + (room.sources[i] >> 16), w = w0 + (room.sources[i] & 0xffff);
    const bool inside = static_cast<uint32_t>(h) < static_cast<uint32_t>(p.in[0]) &&
                        static_cast<uint32_t>(w) < static_cast<uint32_t>(p.in[1]);
    copy_async<kChunk>(to + i * kPositionBytes + chunk * kChunk, inside ? image + h * p.in_row + w * p.in_pixel : input,
                       inside);
  }
}

// The sums of a warp: two times 16 pixels of one group.
template <int Channels>
using GroupSums = float[2][Channels / 8][4];

// `patch` and `weights`: of the group, in shared memory.
template <class T, int Channels>
__device__ inline void sum_group(GroupSums<Channels> &sums, const GroupedProduct &p, const GroupedRoom &room,
                                 uint32_t patch, uint32_t weights, int first_pixel) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto zeros = static_cast<uint32_t>(__cvta_generic_to_shared(room.zeros));
  uint32_t begin[2]; // of the windows of the lane's pixels
#pragma unroll
  for (int i = 0; i < 2; ++i) // beyond the last pixel: a copy, not stored
    begin[i] = patch + room.windows[min(first_pixel + i * 16 + lane % 16, p.tile_pixels() - 1)];
  weights += slot(lane % 8, lane / 8);
  const int32_t *shift = room.shifts + lane / 16;
  for (int left = p.chunks; left > 0; left -= kBlockChunks) {
    uint32_t b[Channels / 8][4];
#pragma unroll
    for (int j = 0; j < Channels / 8; ++j) load_matrices(b[j], weights + j * 8 * kRow);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      if (left <= 2 * step) break;
      const bool there = left - lane / 16 > 2 * step; // else zeros, where chunks are odd
      const uint32_t from = there ? shift[2 * step] : 0;
      uint32_t a[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) load_matrices(a[i], there ? begin[i] + from : zeros);
#pragma unroll
      for (int j = 0; j < Channels / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply_add(sums[i][j], a[i], b[j] + 2 * step, T());
    }
    weights += Channels * kRow, shift += kBlockChunks;
  }
}

// Bias and relu, and into shared memory as the result's rows. `channel`: of the lane's first two, in the slice.
template <class T, int Channels>
__device__ inline void stage_group(const GroupSums<Channels> &sums, const GroupedProduct &p, const GroupedRoom &room,
                                   const float2 (&bias)[Channels / 8], int channel, int first_pixel) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int j = 0; j < Channels / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int pixel = first_pixel + i * 8 + row;
      float a = __fadd_rn(sums[i / 2][j][i % 2 * 2], bias[j].x),
            b = __fadd_rn(sums[i / 2][j][i % 2 * 2 + 1], bias[j].y);
      if (p.relu && a < 0) a = 0;
      if (p.relu && b < 0) b = 0;
      if (pixel < p.tile_pixels())
        *reinterpret_cast<uint32_t *>(room.results + pixel * kPositionBytes + (channel + j * 8) * 2) =
            pair_of(a, b, T());
    }
}

// `result`: of the block's channels.
template <class T>
__device__ inline void store_patch(const GroupedProduct &p, T *result, const Patch &at, const GroupedRoom &room) {
  const int chunk = static_cast<int>(threadIdx.x) % 8;
  T *const image = result + at.n * p.out_image + chunk * 8;
  for (int i = static_cast<int>(threadIdx.x) / 8; i < p.tile_pixels(); i += kGroupedThreads / 8) {
    const int32_t h = at.h + (room.targets[i] >> 16), w = at.w + (room.targets[i] & 0xffff);
    if (h < p.out[0] && w < p.out[1])
      *reinterpret_cast<int4 *>(image + h * p.out_row + w * p.out_pixel) =
          *reinterpret_cast<const int4 *>(room.results + i * kPositionBytes + chunk * kChunk);
  }
}

template <class T, int Channels>
__global__ void __launch_bounds__(kGroupedThreads, Channels == 32 ? 2 : 3)
    convolve_groups(const __grid_constant__ GroupedProduct p) {
  constexpr int kGroups = kSliceChannels / Channels, kShares = kGroupedThreads / 32 / kGroups;
  extern __shared__ __align__(128) unsigned char shared[];
  const GroupedRoom room(shared, p);
  const int warp = static_cast<int>(threadIdx.x) / 32, group = warp % kGroups;
  const auto slice = static_cast<int32_t>(blockIdx.x) % p.slices;
  const auto step = static_cast<int32_t>(gridDim.x) / p.slices;
  int32_t now = static_cast<int32_t>(blockIdx.x) / p.slices;
  const T *const input = static_cast<const T *>(p.input) + slice * kSliceChannels;
  T *const result = static_cast<T *>(p.result) + slice * kSliceChannels;

  const int channel = group * Channels + static_cast<int>(threadIdx.x) % 4 * 2;
  float2 bias[Channels / 8];
#pragma unroll
  for (int j = 0; j < Channels / 8; ++j) {
    const float *const from = p.bias != nullptr ? p.bias + slice * kSliceChannels + channel + j * 8 : nullptr;
    bias[j] = from != nullptr ? make_float2(from[0], from[1]) : make_float2(-0.0f, -0.0f); // changes no sum
  }
  room.fill(p, slice, Channels / 8);
  __syncthreads();
  fetch_patch(p, input, Patch(p, now), room, room.patches);
  commit_copies();

  const auto weights = static_cast<uint32_t>(__cvta_generic_to_shared(room.weights)) +
                       static_cast<uint32_t>(group * p.blocks() * Channels * kRow);
  const auto patches = static_cast<uint32_t>(__cvta_generic_to_shared(room.patches));
  const uint32_t patch_bytes = p.positions() * kPositionBytes;
  uint32_t place = 0; // of the patch that is multiplied
  for (; now < p.patches; now += step, place = patch_bytes - place) {
    if (now + step < p.patches) fetch_patch(p, input, Patch(p, now + step), room, room.patches + (patch_bytes - place));
    commit_copies();
    await_groups<1>();
    __syncthreads();
    for (int pixel = warp / kGroups * 32; pixel < p.tile_pixels(); pixel += kShares * 32) {
      GroupSums<Channels> sums = {};
      sum_group<T, Channels>(sums, p, room, patches + place + group * Channels * 2, weights, pixel);
      stage_group<T, Channels>(sums, p, room, bias, channel, pixel);
    }
    __syncthreads();
    store_patch(p, result, Patch(p, now), room);
  }
}

} // namespace polyconv::cuda::tensor
