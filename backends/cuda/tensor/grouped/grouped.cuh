// grouped.cuh - small groups: a block has the weights of a slice, 64 channels, in shared memory and goes from patch
// to patch of the images, halo included, of which the next is copied in while one is multiplied. Each warp has the
// pixels of one group. A matrix of the instruction is 16 pixels x 8 channels of one tap, so that groups of 8 channels
// waste nothing but half of the last instruction where taps are odd. What a position, pixel or chunk of k adds to an
// address is the same in every patch, and comes from tables.
//
// Shared memory is what holds this back: each tap reads the patch again. With 3 x 3 taps a step apart and groups of 8
// or 16 channels, warps march down the patch instead: they keep 16 pixels' windows of three rows in registers, and load
// one row for each row of results. Sums have the same order, so the same bits.
//
// Groups of 4 channels come in pairs, each a group of 8 whose weights are zero where one group's channels meet the
// other's filters. Such a zero makes NaN of the other group's Inf or NaN; pixels with sums that are not finite are
// therefore summed again, each group without the activations of the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "grouped/patch.cuh"

namespace polyconv::cuda::tensor {

// The sums of a warp: 16 pixels of one group, which has so many channels out.
template <int Out>
using GroupSums = float[Out / 8][4];

// Whether any lane has a sum that is not finite.
template <int Out>
__device__ inline bool any_infinite(const GroupSums<Out> &sums) {
  bool finite = true;
#pragma unroll
  for (int j = 0; j < Out / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) finite = finite && fabsf(sums[j][e]) < INFINITY;
  return __any_sync(~0u, !finite);
}

// The sums of a pair of groups anew: lanes that have the sums of one group take them from a pass without the other's
// activations, which come to lanes in the same order. pass(part, keep) sums with `keep` as a mask of activations.
template <class Pass>
__device__ inline void sum_apart(GroupSums<8> &sums, const Pass &pass) {
#pragma unroll 1
  for (int group = 0; group < 2; ++group) {
    const bool mine = static_cast<int>(threadIdx.x) % 4 / 2 == group;
    GroupSums<8> part[1] = {};
    pass(part, mine ? ~0u : 0u);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (mine) sums[0][e] = part[0][0][e];
  }
}

// The lane's biases. What changes no sum, where there are none.
template <int Out>
struct GroupBias {
  float2 pair[Out / 8];

  // `channel`: of the lane's first pair.
  __device__ GroupBias(const float *bias, int channel) {
#pragma unroll
    for (int j = 0; j < Out / 8; ++j)
      pair[j] =
          bias != nullptr ? make_float2(bias[channel + j * 8], bias[channel + j * 8 + 1]) : make_float2(-0.0f, -0.0f);
  }
};

// Bias and relu, and 16 pixels into shared memory as the result's rows, of which `left` are there. `to`: of the first
// pixel and the lane's first channel.
template <class T, int In, int Out>
__device__ inline void stage_group(const GroupSums<Out> &sums, const GroupBias<Out> &bias, int32_t relu,
                                   unsigned char *to, int left) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int j = 0; j < Out / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float a = __fadd_rn(sums[j][i * 2], bias.pair[j].x), b = __fadd_rn(sums[j][i * 2 + 1], bias.pair[j].y);
      if (relu && a < 0) a = 0;
      if (relu && b < 0) b = 0;
      if (row + i * 8 < left)
        *reinterpret_cast<uint32_t *>(to + (row + i * 8) * kOutPosition<In, Out> + j * 16) = pair_of(a, b, T());
    }
}

// ---------------------------------------------------------------- any window

// 16 Count pixels of a patch. `patch` and `weights`: of the group, in shared memory. With `Some`, of the activations
// only those bits that are in `keep`.
template <class T, int In, int Out, bool Some, int Count>
__device__ inline void sum_group(GroupSums<Out> (&sums)[Count], const GroupedProduct &p,
                                 const GroupedRoom<In, Out> &room, uint32_t patch, uint32_t weights, int first_pixel,
                                 uint32_t keep) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto zeros = static_cast<uint32_t>(__cvta_generic_to_shared(room.zeros));
  uint32_t begin[Count]; // of the windows of the lane's pixels
#pragma unroll
  for (int i = 0; i < Count; ++i) // beyond the last pixel: a copy, not stored
    begin[i] = patch + room.windows[min(first_pixel + i * 16 + lane % 16, p.tile_pixels() - 1)];
  weights += slot(lane % 8, lane / 8);
  const int32_t *shift = room.shifts + lane / 16;
#pragma unroll 2
  for (int left = p.chunks; left > 0; left -= kBlockChunks) {
    uint32_t b[Out / 8][4];
#pragma unroll
    for (int j = 0; j < Out / 8; ++j) load_matrices(b[j], weights + j * 8 * kRow);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      if (left <= 2 * step) break;
      const bool there = left - lane / 16 > 2 * step; // else zeros, where chunks are odd
      const uint32_t from = there ? shift[2 * step] : 0;
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        uint32_t a[4];
        load_matrices(a, there ? begin[i] + from : zeros);
        if constexpr (Some) {
#pragma unroll
          for (uint32_t &bits : a) bits &= keep;
        }
#pragma unroll
        for (int j = 0; j < Out / 8; ++j) multiply_add(sums[i][j], a, b[j] + 2 * step, T());
      }
    }
    weights += Out * kRow, shift += kBlockChunks;
  }
}

// A warp's share of a patch.
template <class T, int In, int Out, bool Pairs = false>
struct AnyWindow {
  static constexpr bool pairs = Pairs;
  uint32_t weights; // of the group, in shared memory

  __device__ explicit AnyWindow(uint32_t of_group) : weights(of_group) {}
  // `results`: of the lane's first channel.
  __device__ void sum(const GroupedProduct &p, const GroupedRoom<In, Out> &room, uint32_t patch, unsigned char *results,
                      const GroupBias<Out> &bias, int share, int shares) const {
    for (int pixel = share * 32; pixel < p.tile_pixels(); pixel += shares * 32) {
      GroupSums<Out> sums[2] = {};
      sum_group<T, In, Out, false>(sums, p, room, patch, weights, pixel, 0);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int mine = pixel + i * 16;
        if constexpr (Pairs) {
          if (any_infinite<Out>(sums[i]))
            sum_apart(sums[i], [&](GroupSums<8>(&part)[1], uint32_t keep) {
              sum_group<T, In, Out, true>(part, p, room, patch, weights, mine, keep);
            });
        }
        stage_group<T, In, Out>(sums[i], bias, p.relu, results + mine * kOutPosition<In, Out>, p.tile_pixels() - mine);
      }
    }
  }
};

// ---------------------------------------------------------------- 3 x 3, a step apart

template <class T, int In, int Out, bool Pairs = false>
struct March {
  static constexpr bool pairs = Pairs;
  static constexpr int kPositionBytes = kPosition<In>;
  static constexpr int kChunks = In / 8, kRowChunks = 3 * kChunks, kAll = 3 * kRowChunks; // of a tap, row, window
  static constexpr int kBlocks = (kAll + 3) / 4;

  uint32_t b[kBlocks][Out / 8][4];

  __device__ explicit March(uint32_t weights) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int j = 0; j < Out / 8; ++j)
        load_matrices(b[block][j], weights + (block * Out + j * 8) * kRow + slot(lane % 8, lane / 8));
  }

  // The chunks of a row for three taps and 16 pixels; the address is the lane's of the first two.
  using Windows = uint32_t[kRowChunks][2];
  __device__ static void load(Windows &row, uint32_t address) {
#pragma unroll
    for (int q = 0; q + 1 < kRowChunks; q += 2) {
      uint32_t pair[4];
      load_matrices(pair, address + q / kChunks * kPositionBytes);
      row[q][0] = pair[0], row[q][1] = pair[1], row[q + 1][0] = pair[2], row[q + 1][1] = pair[3];
    }
    if constexpr (kRowChunks % 2 != 0) load_matrices(row[kRowChunks - 1], address + (kRowChunks - 1) * kPositionBytes);
  }

  // A row of 16 results from the windows of three rows, the first of which is `first`; with `Some`, only from those
  // bits of activations that are in `keep`.
  template <bool Some>
  __device__ void multiply(GroupSums<Out> &sums, const Windows (&rows)[3], int first, uint32_t keep) const {
#pragma unroll
    for (int q = 0; q < kAll; q += 2) {
      const uint32_t *low = rows[(first + q / kRowChunks) % 3][q % kRowChunks];
      const uint32_t *high = rows[(first + (q + 1) / kRowChunks) % 3][(q + 1) % kRowChunks];
      const bool odd = q + 1 == kAll;
      uint32_t a[4] = {low[0], low[1], odd ? 0 : high[0], odd ? 0 : high[1]};
      if constexpr (Some) {
#pragma unroll
        for (uint32_t &bits : a) bits &= keep;
      }
#pragma unroll
      for (int j = 0; j < Out / 8; ++j) multiply_add(sums[j], a, b[q / 4][j] + q % 4, T());
    }
  }

  __device__ void sum(const GroupedProduct &p, const GroupedRoom<In, Out> &, uint32_t patch, unsigned char *results,
                      const GroupBias<Out> &bias, int share, int shares) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, row_bytes = p.row * kPositionBytes;
    const int begin = p.tile[0] * share / shares, end = p.tile[0] * (share + 1) / shares;
    const int second = lane / 16 * (kChunks == 1 ? kPositionBytes : kChunk); // of two chunks
    for (int x = 0; x < p.tile[1]; x += 16) {
      const int column = min(x + lane % 16, p.tile[1] - 1); // beyond the last: a copy, not stored
      uint32_t address = patch + begin * row_bytes + column * kPositionBytes + second;
      Windows rows[3];
      load(rows[0], address), load(rows[1], address + row_bytes);
      address += 2 * row_bytes;
#pragma unroll 1
      for (int y = begin; y < end; y += 3) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          if (y + i >= end) break;
          load(rows[(i + 2) % 3], address);
          address += row_bytes;
          GroupSums<Out> sums = {};
          multiply<false>(sums, rows, i, 0);
          if constexpr (Pairs) {
            if (any_infinite<Out>(sums))
              sum_apart(sums, [&](GroupSums<8>(&part)[1], uint32_t keep) { multiply<true>(part[0], rows, i, keep); });
          }
          stage_group<T, In, Out>(sums, bias, p.relu, results + ((y + i) * p.tile[1] + x) * kOutPosition<In, Out>,
                                  p.tile[1] - x);
        }
      }
    }
  }
};

// ---------------------------------------------------------------- the kernel

template <class T, int In, int Out, class Way>
__global__ void __launch_bounds__(kGroupedThreads, In == 8 && Out == 8 ? 3 : 2)
    convolve_groups(const __grid_constant__ GroupedProduct p) {
  constexpr int kGroups = kSlice<In> / In, kShares = kGroupedThreads / 32 / kGroups;
  extern __shared__ __align__(128) unsigned char shared[];
  const GroupedRoom<In, Out> room(shared, p);
  const int warp = static_cast<int>(threadIdx.x) / 32, group = warp % kGroups;
  const auto slice = static_cast<int32_t>(blockIdx.x) % p.slices;
  const auto step = static_cast<int32_t>(gridDim.x) / p.slices;
  int32_t now = static_cast<int32_t>(blockIdx.x) / p.slices;
  const int32_t before = slice * kSlice<In>, channels = p.channels - before;
  const int32_t out_before = slice * kOutSlice<In, Out>, out_channels = p.out_channels - out_before;
  const T *const input = static_cast<const T *>(p.input) + before;
  T *const result = static_cast<T *>(p.result) + out_before;
  const int channel = group * Out + static_cast<int>(threadIdx.x) % 4 * 2;
  const bool there = group * In < channels; // the last slice may have fewer groups
  const GroupBias<Out> bias(there ? p.bias : nullptr, out_before + channel);

  if constexpr (Way::pairs)
    fill_paired_weights(p, slice, room.weights);
  else
    fill_weights<In, Out>(p, slice, room.weights);
  room.fill(p);
  commit_copies();
  __syncthreads();
  fetch_patch(p, input, channels, Patch(p, now), room, room.patches);
  commit_copies();
  await_groups<1>();
  __syncthreads();
  const Way way(static_cast<uint32_t>(__cvta_generic_to_shared(room.weights)) +
                static_cast<uint32_t>(group * p.blocks() * Out * kRow));

  const auto patches = static_cast<uint32_t>(__cvta_generic_to_shared(room.patches)) + group * In * 2;
  const uint32_t patch_bytes = p.positions() * kPosition<In>;
  uint32_t place = 0; // of the patch that is multiplied
  for (; now < p.patches; now += step, place = patch_bytes - place) {
    if (now + step < p.patches)
      fetch_patch(p, input, channels, Patch(p, now + step), room, room.patches + (patch_bytes - place));
    commit_copies();
    await_groups<1>();
    __syncthreads();
    if (there) way.sum(p, room, patches + place, room.results + channel * 2, bias, warp / kGroups, kShares);
    __syncthreads();
    store_patch(p, result, out_channels, Patch(p, now), room);
  }
}

} // namespace polyconv::cuda::tensor
