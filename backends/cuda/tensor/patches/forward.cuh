// forward.cuh - the product of a block: from patch to patch, and within each from one slice of channels to the next;
// what comes next is on its way meanwhile.
//
// Floor: one read of x, or of shared memory: a warp reads 512 bytes, four clocks of a multiprocessor, for the products
// of 16 pixels, a tap and 16 channels with all filters of the slice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/patches.cuh"
#include "common/ptx/grid.cuh"
#include "mma/fragments.cuh"
#include "patches/forward.hpp"

namespace polyconv::cuda::tensor {

// Shared memory of a block: two stages of a slice each, then what is the same for all.
struct ForwardRoom {
  unsigned char *stages;
  PatchTables tables;
  int32_t *shifts; // of taps: bytes from a window's begin

  __device__ ForwardRoom(unsigned char *shared, const ForwardProduct &p)
      : stages(shared), tables(shared + 2 * p.stage_bytes(), p.patches), shifts(tables.origins + p.patches.pixels) {}

  __device__ void fill(const ForwardProduct &p) const {
    tables.fill(p.patches);
    for (auto tap = static_cast<int32_t>(threadIdx.x); tap < p.patches.all_taps(); tap += kForwardThreads)
      shifts[tap] = PatchTables::shift_of(p.patches, tap) * p.pitch();
  }
  __device__ unsigned char *x(const ForwardProduct &p, int stage) const { return stages + stage * p.stage_bytes(); }
  // Where there is one slice of channels, its weights stay where they came first.
  __device__ unsigned char *weights(const ForwardProduct &p, int stage) const {
    return x(p, p.channel_slices == 1 ? 0 : stage) + p.x_bytes();
  }
};

// The slice of filters of a block: of which group, and where its weights and filters begin.
struct ForwardPlace {
  int32_t group, filter, filter_end;
  const char *weights;

  __device__ ForwardPlace(const ForwardProduct &p, int32_t slice) : group(slice / p.filter_slices) {
    filter = group * p.group_filters + (slice - group * p.filter_slices) * p.filters;
    filter_end = (group + 1) * p.group_filters;
    weights = static_cast<const char *>(p.weights) + int64_t{slice} * p.channel_slices * p.rows() * p.channels * 2;
  }
};

// This thread's part of a slice of channels: of a patch's windows, and of the weights unless they are there.
template <class T>
__device__ inline void fetch_slice(const ForwardProduct &p, const ForwardPlace &place, const ForwardRoom &room,
                                   int32_t patch, int32_t slice, int stage, bool weights) {
  const int32_t first = place.group * p.group_channels;
  fetch_windows<T>(p.patches, p.x, {p.channels / 8, first + slice * p.channels, first + p.group_channels},
                   PatchBegin(p.patches, patch), room.tables, room.x(p, stage), p.pitch());
  if (!weights) return;
  const int32_t chunks = p.channels / 8, chunk = static_cast<int32_t>(threadIdx.x) & (chunks - 1);
  const char *const from = place.weights + int64_t{slice} * p.rows() * p.channels * 2 + chunk * 16;
  unsigned char *const to = room.weights(p, stage) + chunk * 16;
  for (int32_t row = static_cast<int32_t>(threadIdx.x) / chunks; row < p.rows(); row += kForwardThreads / chunks)
    copy_async<16>(to + row * p.pitch(), from + row * p.channels * 2, true);
}

// What a warp has of a patch: steps of 16 pixels, every kForwardWarps-th.
template <class T, int Eights>
class ForwardSums {
 public:
  float sums[kWarpSteps][Eights][4];

  __device__ explicit ForwardSums(const ForwardProduct &p, const ForwardRoom &room) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
#pragma unroll
    for (int step = 0; step < kWarpSteps; ++step) { // beyond the last pixel: a copy, not stored
      const int32_t pixel = min(first_pixel(step) + lane % 16, p.patches.pixels - 1);
      window_[step] = room.tables.origins[pixel] * p.pitch() + lane / 16 * 16;
    }
    row_ = (lane % 8) * p.pitch() + lane / 8 % 2 * 16;
  }
  __device__ static int32_t first_pixel(int step) {
    return (step * kForwardWarps + static_cast<int32_t>(threadIdx.x) / 32) * 16;
  }

  __device__ void begin() {
#pragma unroll
    for (int step = 0; step < kWarpSteps; ++step)
#pragma unroll
      for (int e = 0; e < Eights; ++e)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[step][e][i] = 0;
  }

  // A slice of channels, tap by tap.
  __device__ void add_slice(const ForwardProduct &p, const ForwardRoom &room, int stage) {
    const auto x = static_cast<uint32_t>(__cvta_generic_to_shared(room.x(p, stage)));
    uint32_t w = static_cast<uint32_t>(__cvta_generic_to_shared(room.weights(p, stage))) + row_;
    const int32_t taps = p.patches.all_taps(), depth = p.channels / 16, eight = 8 * p.pitch();
    const bool second = first_pixel(1) < p.patches.pixels;
    for (int32_t tap = 0; tap < taps; ++tap, w += Eights * eight) {
      const uint32_t from = x + room.shifts[tap];
#pragma unroll 2
      for (int32_t k = 0; k < depth; ++k) {
        uint32_t a[kWarpSteps][4], b[Eights][2];
#pragma unroll
        for (int e = 0; e < Eights; ++e) load_matrices(b[e], w + e * eight + k * 32);
        load_matrices(a[0], from + window_[0] + k * 32);
        if (second) load_matrices(a[1], from + window_[1] + k * 32);
#pragma unroll
        for (int e = 0; e < Eights; ++e) multiply_add(sums[0][e], a[0], b[e], T());
        if (second)
#pragma unroll
          for (int e = 0; e < Eights; ++e) multiply_add(sums[1][e], a[1], b[e], T());
      }
    }
  }

  __device__ void store_patch(const ForwardProduct &p, const ForwardPlace &place, const ForwardRoom &room,
                              const PatchBegin &begin) const {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
#pragma unroll
    for (int step = 0; step < kWarpSteps; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t i = first_pixel(step) + half * 8 + lane / 4;
        if (i >= p.patches.tile_pixels()) continue;
        const Packed pixel(room.tables.targets[i]);
        Place<int64_t> at = {begin.n + pixel.n, 0, begin.out[0] + pixel.at[0], begin.out[1] + pixel.at[1],
                             begin.out[2] + pixel.at[2]};
        if (at.n >= p.patches.images || at.d >= p.patches.out[0] || at.h >= p.patches.out[1] ||
            at.w >= p.patches.out[2])
          continue;
#pragma unroll
        for (int e = 0; e < Eights; ++e)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            at.c = place.filter + e * 8 + lane % 4 * 2 + j;
            if (at.c < place.filter_end) finish_and_store(p.conv, p.result, sums[step][e][half * 2 + j], at);
          }
      }
  }

 private:
  int32_t window_[kWarpSteps], row_;
};

// Blocks of one share come one after the other: they read the same patches at the same time.
template <class T, int Eights>
__global__ void __launch_bounds__(kForwardThreads, 2) multiply_patches(const __grid_constant__ ForwardProduct p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const ForwardRoom room(shared, p);
  room.fill(p);
  const int32_t slices = p.filter_slices * p.groups, share = static_cast<int32_t>(blockIdx.x) / slices;
  const ForwardPlace place(p, static_cast<int32_t>(blockIdx.x) - share * slices);
  const auto first = static_cast<int32_t>(int64_t{p.patches.count} * share / p.shares);
  const auto last = static_cast<int32_t>(int64_t{p.patches.count} * (share + 1) / p.shares);
  __syncthreads(); // the tables are there
  ForwardSums<T, Eights> sums(p, room);
  ptx::let_next_begin(), ptx::await_previous();
  int stage = 0;
  if (first < last) fetch_slice<T>(p, place, room, first, 0, 0, true);
  commit_copies();
#pragma unroll 1
  for (int32_t patch = first; patch < last; ++patch) {
    sums.begin();
#pragma unroll 1
    for (int32_t slice = 0; slice < p.channel_slices; ++slice, stage ^= 1) {
      const bool turns = slice + 1 == p.channel_slices;
      if (!turns || patch + 1 < last)
        fetch_slice<T>(p, place, room, turns ? patch + 1 : patch, turns ? 0 : slice + 1, stage ^ 1,
                       p.channel_slices > 1);
      commit_copies();
      await_groups<1>();
      __syncthreads();
      sums.add_slice(p, room, stage);
      __syncthreads(); // nobody reads the stage any more
    }
    sums.store_patch(p, place, room, PatchBegin(p.patches, patch));
  }
}

// ---------------------------------------------------------------- launch

template <class T, int Eights>
ForwardLauncher forward_launcher() {
  const auto prepare = [] { allow_shared(multiply_patches<T, Eights>, kLentShared); };
  const auto launch = [](const ForwardProduct &p, cudaStream_t stream) {
    launch_early_if(p.early, multiply_patches<T, Eights>, static_cast<unsigned>(p.filter_slices * p.groups * p.shares),
                    kForwardThreads, p.shared_bytes(), stream, p);
  };
  return {prepare, launch};
}

template <class T>
ForwardLauncher forward_launcher_of(int eights) {
  return eights == 1 ? forward_launcher<T, 1>() : forward_launcher<T, 2>();
}

} // namespace polyconv::cuda::tensor
