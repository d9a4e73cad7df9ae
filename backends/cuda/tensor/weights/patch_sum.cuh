// patch_sum.cuh - the product of a block: from patch to patch of its share, sums in registers, then their way out.
//
// Floor: the larger of one read of x and dy, and of shared memory: an instruction pair multiplies 16 filters by 16
// channels of 16 pixels, for which a warp reads 512 bytes of x a tap, four clocks of a multiprocessor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/patches.cuh"
#include "common/ptx/grid.cuh"
#include "common/values.cuh"
#include "mma/fragments.cuh"
#include "weights/patch.hpp"

namespace polyconv::cuda::tensor {

// Shared memory of a block: two stages of a patch each, then what is the same for every patch.
struct PatchRoom {
  unsigned char *stages, *zeros;
  PatchTables tables;
  int32_t *windows; // of each stage and pixel: bytes from the stage's begin; negative for pixels that do not exist
  int32_t *shifts;  // of the slice's turns: bytes from a window's begin

  __device__ PatchRoom(unsigned char *shared, const PatchProduct &p)
      : stages(shared),
        zeros(shared + p.tables_at),
        tables(zeros + kZerosBytes, p.patches),
        windows(tables.origins + p.patches.pixels),
        shifts(windows + 2 * p.patches.pixels) {}

  __device__ void fill(const PatchProduct &p, const PatchPlace &place) const {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    if (thread < kZerosBytes / 4) reinterpret_cast<int32_t *>(zeros)[thread] = 0;
    tables.fill(p.patches);
    const int32_t pieces = (1 << p.pieces_shift) - 1, bytes = p.channels * 2 >> p.pieces_shift;
    for (int32_t i = thread; i < p.slice_turns; i += static_cast<int32_t>(blockDim.x)) {
      const int32_t turn = place.turn + i;
      shifts[i] = PatchTables::shift_of(p.patches, turn >> p.pieces_shift) * p.x_pitch() + (turn & pieces) * bytes;
    }
  }
  __device__ unsigned char *x(const PatchProduct &p, int stage) const { return stages + stage * p.stage_bytes(); }
  __device__ unsigned char *dy(const PatchProduct &p, int stage) const {
    return x(p, stage) + p.patches.positions * p.x_pitch();
  }
  // This thread's part of a patch.
  template <class T>
  __device__ void fetch(const PatchProduct &p, const PatchPlace &place, int32_t patch, int stage) const {
    const PatchBegin begin(p.patches, patch);
    fetch_windows<T>(p.patches, p.x, {p.channels / 8, place.channel, place.channel_end}, begin, tables, x(p, stage),
                     p.x_pitch());
    fetch_pixels<T>(p.patches, p.dy, {p.filters / 8, place.filter, place.filter_end}, begin, tables, dy(p, stage),
                    p.dy_pitch(), [&](int32_t i, bool inside) {
                      windows[stage * p.patches.pixels + i] = inside ? tables.origins[i] * p.x_pitch() : -1;
                    });
  }
};

// Of a tile: the last slice of turns may be shorter.
__device__ inline int32_t slice_turns(const PatchProduct &p, const PatchPlace &place) {
  return min(p.slice_turns, p.all_turns() - place.turn);
}

// What a warp has of its block's tile: 16 filters, turns [first, first + turns), and of the steps of 16 pixels those of
// its part.
struct PatchWarp {
  int32_t index, filter_block, first, turns, part;

  __device__ PatchWarp(const PatchProduct &p, const PatchPlace &place) : index(static_cast<int32_t>(threadIdx.x) / 32) {
    const int32_t rest = index / p.filter_blocks;
    filter_block = index - rest * p.filter_blocks;
    part = rest / p.turn_warps;
    first = (rest - part * p.turn_warps) * p.warp_turns();
    turns = min(max(slice_turns(p, place) - first, 0), p.warp_turns());
  }
};

template <class T, int ChannelBlocks>
class PatchSums {
  static constexpr int kTurns = most_turns(ChannelBlocks), kPerTurn = ChannelBlocks * 8; // sums of a lane

 public:
  float sums[kTurns][ChannelBlocks][2][4] = {};

  // After the tables are filled.
  __device__ PatchSums(const PatchRoom &room, const PatchWarp &warp) {
#pragma unroll
    for (int t = 0; t < kTurns; ++t) shift_[t] = t < warp.turns ? room.shifts[warp.first + t] : 0;
  }

  // The steps of a stage, by code for just the turns that the warp has: nothing but the loads that a product needs
  // keeps it waiting.
  __device__ void add_patch(const PatchProduct &p, const PatchRoom &room, const PatchWarp &warp, int stage) {
    with_turns<kTurns>(warp.turns, [&](auto turns) { add_steps<decltype(turns)::value>(p, room, warp, stage); });
  }

  // All sums into shared memory, as they lie in registers: code that looks for a weight's sums there is short, and so
  // is there when it is wanted once.
  __device__ void hand_over(const PatchProduct &p, const PatchWarp &warp, float *shared) const {
    float *const to = shared + warp.index * p.warp_turns() * kPerTurn * 32 + static_cast<int32_t>(threadIdx.x) % 32;
    const float *const all = &sums[0][0][0][0];
#pragma unroll
    for (int i = 0; i < kTurns * kPerTurn; ++i)
      if (i / kPerTurn < warp.turns) to[i * 32] = all[i];
  }

  // Sum i, a filter's channel, of a turn of the slice, over the warps that share its pixels, in order. `shared`: where
  // the turn's sums of the first filters begin.
  __device__ static float sum_at(const PatchProduct &p, const float *shared, int32_t i) {
    const int32_t filter = i >> p.row_shift, block = filter / 16, of_warp = p.warp_turns() * kPerTurn * 32;
    int32_t channel = i & ((1 << p.row_shift) - 1);
    if (p.diagonal) channel += (filter >> p.row_shift << p.row_shift) - block / ChannelBlocks * ChannelBlocks * 16;
    const int32_t element = (channel / 8 * 4 + filter / 8 % 2 * 2 + channel % 2) * 32;
    const float *from = shared + block * of_warp + element + filter % 8 * 4 + channel / 2 % 4;
    float sum = *from;
    for (int32_t part = 1; part < p.pixel_warps; ++part) sum += *(from += p.turn_warps * p.filter_blocks * of_warp);
    return sum;
  }
  __device__ static const float *of_turn(const PatchProduct &p, const float *shared, int32_t turn) {
    const int32_t which = turn / p.warp_turns(), t = turn - which * p.warp_turns();
    return shared + (which * p.filter_blocks * p.warp_turns() + t) * kPerTurn * 32;
  }

 private:
  // Body(integral_constant) of a number of turns from 1 to Most.
  template <int Most, class Body>
  __device__ static void with_turns(int32_t turns, const Body &body) {
    if constexpr (Most > 0) {
      if (turns == Most) return body(std::integral_constant<int, Most>{});
      with_turns<Most - 1>(turns, body);
    }
  }

  // Pixels that do not exist are zeros of both factors: their windows may hold NaN.
  template <int Turns>
  __device__ void add_steps(const PatchProduct &p, const PatchRoom &room, const PatchWarp &warp, int stage) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, chunk = lane / 16 * 16;
    const int32_t channel_block =
        p.diagonal ? warp.filter_block / ChannelBlocks * ChannelBlocks : 0; // the first of the filters' groups
    const auto zeros = static_cast<uint32_t>(__cvta_generic_to_shared(room.zeros)) + chunk;
    const uint32_t x = static_cast<uint32_t>(__cvta_generic_to_shared(room.x(p, stage))) + channel_block * 32 + chunk;
    const uint32_t dy =
        static_cast<uint32_t>(__cvta_generic_to_shared(room.dy(p, stage))) + warp.filter_block * 32 + chunk;
    const int32_t *const windows = room.windows + stage * p.patches.pixels;
    for (int32_t pixel = warp.part * 16 + lane % 16; pixel < p.patches.pixels; pixel += p.pixel_warps * 16) {
      const int32_t window = windows[pixel];
      const bool there = window >= 0;
      const uint32_t from = there ? x + window : zeros, mask = there ? ~0u : 0u;
      uint32_t a[4];
      load_transposed(a, there ? dy + pixel * p.dy_pitch() : zeros);
      const uint32_t rows[4] = {a[0], a[2], a[1], a[3]}; // filters 0 and 8 on of pixels 0 on, then of pixels 8 on
#pragma unroll
      for (int t = 0; t < Turns; ++t)
#pragma unroll
        for (int b = 0; b < ChannelBlocks; ++b) {
          uint32_t columns[4];
          load_transposed(columns, from + (shift_[t] & mask) + b * 32);
          multiply_add(sums[t][b][0], rows, columns, T());
          multiply_add(sums[t][b][1], rows, columns + 2, T());
        }
    }
  }

  uint32_t shift_[kTurns];
};

// Where a turn's sums go in the gradient: the weight of the tile's first filter and of the turn's first channel; and
// how many of each are somebody's.
struct PatchTarget {
  int64_t first;
  int32_t filters, channels, filter_stride, channel_stride;

  __device__ PatchTarget(const PatchProduct &p, const PatchPlace &place, int32_t turn) {
    const int32_t all = place.turn + turn, tap = all >> p.pieces_shift, piece = all & ((1 << p.pieces_shift) - 1);
    const int32_t channel = p.diagonal ? 0 : place.channel % p.group_channels + piece * (p.channels >> p.pieces_shift);
    const int32_t line = tap / p.patches.taps[2];
    first = p.weights.at(place.filter, channel, line / p.patches.taps[1], line % p.patches.taps[1],
                         tap - line * p.patches.taps[2]);
    filters = place.filter_end - place.filter, channels = p.group_channels - channel;
    filter_stride = static_cast<int32_t>(p.weights.stride[0]);
    channel_stride = static_cast<int32_t>(p.weights.stride[1]);
  }
  __device__ void store(const PatchProduct &p, int32_t i, float sum) const {
    const int32_t filter = i >> p.row_shift, channel = i & ((1 << p.row_shift) - 1);
    if (filter < filters && channel < channels)
      polyconv::cuda::store(p.result, p.result_type, first + filter * filter_stride + channel * channel_stride, sum);
  }
};

// A tile's sums, or those of a split of it, from shared memory to where they are wanted.
template <class Sums>
__device__ inline void leave_tile(const PatchProduct &p, const PatchPlace &place, const float *values, float *piece) {
  const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
  const int32_t turns = slice_turns(p, place);
#pragma unroll 1
  for (int32_t turn = 0; turn < turns; ++turn) {
    const float *const from = Sums::of_turn(p, values, turn);
    if (p.splits == 1) {
      const PatchTarget target(p, place, turn);
#pragma unroll 2
      for (int32_t i = thread; i < p.turn_sums(); i += threads) target.store(p, i, Sums::sum_at(p, from, i));
    } else {
#pragma unroll 2
      for (int32_t i = thread; i < p.turn_sums(); i += threads)
        piece[turn * p.turn_sums() + i] = Sums::sum_at(p, from, i);
    }
  }
  if (p.splits == 1) return;
  // Nobody's sums: the last slice of turns may be shorter, and the last quads are filled up.
  for (int32_t i = turns * p.turn_sums() + thread; i < p.quads() * 4; i += threads) piece[i] = 0;
}

// Blocks of one split come one after the other: they read the same pixels at the same time.
template <class T, int ChannelBlocks>
__global__ void __launch_bounds__(kPatchThreads, 1) sum_patches(const __grid_constant__ PatchProduct p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const PatchRoom room(shared, p);
  const int32_t split = static_cast<int32_t>(blockIdx.x) / p.all_tiles;
  const int32_t tile = static_cast<int32_t>(blockIdx.x) - split * p.all_tiles;
  const PatchPlace place(p, tile);
  const PatchWarp warp(p, place);
  room.fill(p, place);
  const auto first = static_cast<int32_t>(int64_t{p.patches.count} * split / p.splits);
  const auto last = static_cast<int32_t>(int64_t{p.patches.count} * (split + 1) / p.splits);
  __syncthreads(); // the tables are there
  PatchSums<T, ChannelBlocks> sums(room, warp);
  ptx::let_next_begin(), ptx::await_previous();
#pragma unroll 1
  for (int32_t next = first, stage = 0; next <= last; ++next, stage ^= 1) { // the first turn only fetches
    if (next < last) room.template fetch<T>(p, place, next, stage);
    commit_copies();
    if (next == first) continue;
    await_groups<1>();
    __syncthreads();
    sums.add_patch(p, room, warp, stage ^ 1);
    __syncthreads(); // nobody reads that stage any more
  }
  await_copies();
  auto *const values = reinterpret_cast<float *>(shared);
  sums.hand_over(p, warp, values);
  __syncthreads();
  leave_tile<PatchSums<T, ChannelBlocks>>(p, place, values,
                                          p.pieces + (int64_t{tile} * p.splits + split) * p.quads() * 4);
}

// ---------------------------------------------------------------- the sum over pieces

constexpr int kAddingWays = 16; // warps that share the pieces of 32 quads

// Blocks: 32 quads of a tile each. Every warp adds some of the pieces, in order, and the first of them those sums.
template <class T>
__global__ void __launch_bounds__(32 * kAddingWays, 1) add_splits(const __grid_constant__ PatchProduct p) {
  __shared__ float4 sums[kAddingWays][32];
  const int32_t sets = p.quads() / 32, tile = static_cast<int32_t>(blockIdx.x) / sets;
  const int32_t way = static_cast<int32_t>(threadIdx.x) / 32, lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t quad = (static_cast<int32_t>(blockIdx.x) - tile * sets) * 32 + lane;
  const int32_t first = p.splits * way / kAddingWays, last = p.splits * (way + 1) / kAddingWays;
  const PatchPlace place(p, tile);
  const auto *from = reinterpret_cast<const float4 *>(p.pieces) + (int64_t{tile} * p.splits + first) * p.quads() + quad;
  ptx::let_next_begin(), ptx::await_previous();
  float4 sum = {};
#pragma unroll 8
  for (int32_t split = first; split < last; ++split, from += p.quads()) {
    const float4 v = *from;
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  sums[way][lane] = sum;
  __syncthreads();
  if (way > 0) return;
#pragma unroll
  for (int other = 1; other < kAddingWays; ++other) {
    const float4 v = sums[other][lane];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  const int32_t turn = quad * 4 / p.turn_sums(), i = quad * 4 - turn * p.turn_sums(); // a quad is of one turn
  if (turn >= slice_turns(p, place)) return;
  const PatchTarget target(p, place, turn);
  target.store(p, i, sum.x), target.store(p, i + 1, sum.y), target.store(p, i + 2, sum.z),
      target.store(p, i + 3, sum.w);
}

// ---------------------------------------------------------------- launch

template <class T, int ChannelBlocks>
PatchLauncher patch_launcher() {
  const auto prepare = [] { allow_shared(sum_patches<T, ChannelBlocks>, kLentShared); };
  const auto launch = [](const PatchProduct &p, cudaStream_t stream) {
    launch_early_if(p.early, sum_patches<T, ChannelBlocks>, static_cast<unsigned>(p.all_tiles * p.splits),
                    p.warps() * 32, p.shared_bytes(), stream, p);
    if (p.splits > 1)
      launch_early_if(p.early, add_splits<T>, static_cast<unsigned>(p.all_tiles * (p.quads() / 32)), 32 * kAddingWays,
                      0, stream, p);
  };
  return {prepare, launch};
}

template <class T>
PatchLauncher patch_launcher_of(int channel_blocks) {
  return channel_blocks == 1 ? patch_launcher<T, 1>() : patch_launcher<T, 2>();
}

} // namespace polyconv::cuda::tensor

#define POLYCONV_INSTANCE(T) template tensor::PatchLauncher tensor::patch_launcher_of<T>(int);
