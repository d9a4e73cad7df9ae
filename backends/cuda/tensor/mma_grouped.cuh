// mma_grouped.cuh - small groups: a block has 64 channels of a patch of one image, halo included, in shared memory, and
// each warp the pixels of one group. A matrix of the instruction is 16 pixels x 8 channels of one tap, so that groups
// of 8 channels waste nothing but half of the last instruction where taps are odd.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/async.cuh"
#include "mma_fragments.cuh"
#include "mma_grouped.hpp"

namespace polyconv::cuda::tensor {

// Shared memory: positions of the patch, 128 bytes each and one of zeros behind; weights; results; the position that
// each chunk of k adds.
struct GroupedRoom {
  unsigned char *patch, *weights, *results;
  int32_t *shifts;

  __device__ GroupedRoom(unsigned char *shared, const GroupedProduct &p) : patch(shared) {
    weights = patch + (p.positions() + 1) * kPositionBytes;
    results = weights + p.weights_bytes;
    shifts = reinterpret_cast<int32_t *>(results + p.tile_pixels() * kPositionBytes);
  }
};

// Byte offset of a chunk of a position, so that neighbours' chunks lie in all banks.
__device__ inline int place(int position, int chunk) {
  return position * kPositionBytes + ((chunk ^ (position & 7)) * kChunk);
}

// The patch of a block: which image, which outputs, which channels.
struct Patch {
  int32_t n, h, w, slice;

  __device__ explicit Patch(const GroupedProduct &p) {
    unsigned i = blockIdx.x;
    slice = static_cast<int32_t>(i % p.slices), i /= p.slices;
    w = static_cast<int32_t>(i % p.tiles[1]) * p.tile[1], i /= p.tiles[1];
    h = static_cast<int32_t>(i % p.tiles[0]) * p.tile[0];
    n = static_cast<int32_t>(i / p.tiles[0]);
  }
};

template <class T>
__device__ inline void fetch_patch(const GroupedProduct &p, const Patch &at, const GroupedRoom &room, int chunks) {
  const T *const input = static_cast<const T *>(p.input) + at.n * p.in_image + at.slice * kSliceChannels;
  const int32_t h0 = at.h * p.stride[0] - p.pad[0], w0 = at.w * p.stride[1] - p.pad[1];
  for (int i = threadIdx.x; i < (p.positions() + 1) * 8; i += kGroupedThreads) {
    const int position = i / 8, chunk = i % 8;
    const int32_t h = h0 + position / p.patch[1], w = w0 + position % p.patch[1];
    const bool inside = position < p.positions() && static_cast<uint32_t>(h) < static_cast<uint32_t>(p.in[0]) &&
                        static_cast<uint32_t>(w) < static_cast<uint32_t>(p.in[1]);
    const T *const from =
        inside ? input + static_cast<int64_t>(h) * p.in_row + static_cast<int64_t>(w) * p.in_pixel + chunk * 8 : input;
    copy_async<kChunk>(room.patch + place(position, chunk), from, inside);
  }
  const char *const weights = static_cast<const char *>(p.weights) + static_cast<int64_t>(at.slice) * p.weights_bytes;
  for (int i = threadIdx.x * kChunk; i < p.weights_bytes; i += kGroupedThreads * kChunk)
    copy_async<kChunk>(room.weights + i, weights + i, true);
  // Chunk q of k is chunk q % chunks of tap q / chunks. Behind the last: -1.
  for (int q = threadIdx.x; q < p.blocks * kBlockChunks; q += kGroupedThreads) {
    const int tap = q / chunks;
    room.shifts[q] = tap >= p.taps[0] * p.taps[1]
                         ? -1
                         : tap / p.taps[1] * p.dilation[0] * p.patch[1] + tap % p.taps[1] * p.dilation[1];
  }
  await_copies();
  __syncthreads();
}

// The sums of a warp: two times 16 pixels of one group.
template <int Channels>
using GroupSums = float[2][Channels / 8][4];

template <class T, int Channels>
__device__ inline void sum_group(GroupSums<Channels> &sums, const GroupedProduct &p, const GroupedRoom &room, int group,
                                 int first_pixel) {
  constexpr int kChunks = Channels / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / 4;
  const auto patch = static_cast<uint32_t>(__cvta_generic_to_shared(room.patch));
  const unsigned char *weights = room.weights + group * p.blocks * Channels * kRow + row * kRow + lane % 4 * 4;
  int begin[2]; // of the windows of the lane's pixels
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int pixel = min(first_pixel + i * 16 + lane % 16, p.tile_pixels() - 1); // beyond: a copy, not stored
    begin[i] = pixel / p.tile[1] * p.stride[0] * p.patch[1] + pixel % p.tile[1] * p.stride[1];
  }
#pragma unroll 3
  for (int step = 0; step < p.steps; ++step) {
    const int q = 2 * step + lane / 16, shift = room.shifts[q], chunk = group * kChunks + q % kChunks;
    uint32_t a[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) load_matrices(a[i], patch + place(shift < 0 ? p.positions() : begin[i] + shift, chunk));
    const unsigned char *const block = weights + step / 2 * Channels * kRow;
    const int even = (step % 2 * 2 ^ (row >> 1 & 3)) * kChunk, odd = even ^ kChunk; // see slot()
#pragma unroll
    for (int j = 0; j < Channels / 8; ++j) {
      const uint32_t b[2] = {*reinterpret_cast<const uint32_t *>(block + j * 8 * kRow + even),
                             *reinterpret_cast<const uint32_t *>(block + j * 8 * kRow + odd)};
#pragma unroll
      for (int i = 0; i < 2; ++i) multiply_add(sums[i][j], a[i], b, T());
    }
  }
}

// Bias and relu, and into shared memory as the result's rows.
template <class T, int Channels>
__device__ inline void stage_group(const GroupSums<Channels> &sums, const GroupedProduct &p, const GroupedRoom &room,
                                   int slice, int group, int first_pixel) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < Channels / 8; ++j) {
    const int channel = group * Channels + j * 8 + lane % 4 * 2;
    const float *const bias = p.bias != nullptr ? p.bias + slice * kSliceChannels + channel : nullptr;
    const float first = bias != nullptr ? bias[0] : -0.0f, second = bias != nullptr ? bias[1] : -0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int pixel = first_pixel + i * 8 + lane / 4;
      float a = __fadd_rn(sums[i / 2][j][i % 2 * 2], first), b = __fadd_rn(sums[i / 2][j][i % 2 * 2 + 1], second);
      if (p.relu && a < 0) a = 0;
      if (p.relu && b < 0) b = 0;
      if (pixel < p.tile_pixels())
        *reinterpret_cast<uint32_t *>(room.results + place(pixel, channel / 8) + channel % 8 * 2) = pair_of(a, b, T());
    }
  }
}

template <class T, int Channels>
__global__ void __launch_bounds__(kGroupedThreads, Channels == 8 ? 3 : 2)
    convolve_groups(const __grid_constant__ GroupedProduct p) {
  constexpr int kGroups = kSliceChannels / Channels, kShares = kGroupedThreads / 32 / kGroups;
  extern __shared__ __align__(128) unsigned char shared[];
  const GroupedRoom room(shared, p);
  const Patch at(p);
  fetch_patch<T>(p, at, room, Channels / 8);

  const int warp = static_cast<int>(threadIdx.x) / 32, group = warp % kGroups;
  for (int pixel = warp / kGroups * 32; pixel < p.tile_pixels(); pixel += kShares * 32) {
    GroupSums<Channels> sums = {};
    sum_group<T, Channels>(sums, p, room, group, pixel);
    stage_group<T, Channels>(sums, p, room, at.slice, group, pixel);
  }
  __syncthreads();
  T *const result = static_cast<T *>(p.result) + at.n * p.out_image + at.slice * kSliceChannels;
  for (int i = threadIdx.x; i < p.tile_pixels() * 8; i += kGroupedThreads) {
    const int pixel = i / 8, h = at.h + pixel / p.tile[1], w = at.w + pixel % p.tile[1];
    if (h < p.out[0] && w < p.out[1])
      *reinterpret_cast<int4 *>(result + static_cast<int64_t>(h) * p.out_row + static_cast<int64_t>(w) * p.out_pixel +
                                i % 8 * 8) = *reinterpret_cast<const int4 *>(room.results + place(pixel, i % 8));
  }
}

} // namespace polyconv::cuda::tensor
