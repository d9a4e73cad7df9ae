// patch_sum.cuh - the product of a block: from patch to patch of its share, sums in registers, then their way out.
//
// Floor: the larger of one read of x and dy, and of shared memory: an instruction pair multiplies 16 filters by 16
// channels of 16 pixels, for which a warp reads 512 bytes of x a tap, four clocks of a multiprocessor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.hpp"
#include "common/patches.cuh"
#include "common/values.cuh"
#include "mma_fragments.cuh"
#include "patch.hpp"

namespace polyconv::cuda::tensor {

// Shared memory of a block: two stages of a patch each, then what is the same for every patch.
struct PatchRoom {
  unsigned char *stages, *zeros;
  PatchTables tables;
  int32_t *windows; // of each stage and pixel: bytes from the stage's begin; negative for pixels that do not exist
  int32_t *shifts;  // of the slice's taps: bytes from a window's begin

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
    const Patches &at = p.patches;
    for (int32_t i = thread; i < p.slice_taps; i += static_cast<int32_t>(blockDim.x)) {
      const int32_t tap = place.tap + i, line = tap / at.taps[2], plane = line / at.taps[1];
      const int32_t h = (line - plane * at.taps[1]) * at.dilation[1], w = (tap - line * at.taps[2]) * at.dilation[2];
      shifts[i] = ((plane * at.dilation[0] * at.patch[2] + h) * at.patch[3] + w) * p.x_pitch();
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

// Of a tile: the last slice of taps may be shorter.
__device__ inline int32_t slice_taps(const PatchProduct &p, const PatchPlace &place) {
  return min(p.slice_taps, p.patches.all_taps() - place.tap);
}

// What a warp has of its block's tile: 16 filters, taps [first, first + taps), and of the steps of 16 pixels those of
// its part.
struct PatchWarp {
  int32_t index, filter_block, first, taps, part;

  __device__ PatchWarp(const PatchProduct &p, const PatchPlace &place) : index(static_cast<int32_t>(threadIdx.x) / 32) {
    const int32_t rest = index / p.filter_blocks;
    filter_block = index - rest * p.filter_blocks;
    part = rest / p.tap_warps;
    first = (rest - part * p.tap_warps) * p.warp_taps();
    taps = min(max(slice_taps(p, place) - first, 0), p.warp_taps());
  }
};

template <class T, int ChannelBlocks>
class PatchSums {
  static constexpr int kTaps = most_taps(ChannelBlocks), kPerTap = ChannelBlocks * 8; // sums of a lane

 public:
  float sums[kTaps][ChannelBlocks][2][4] = {};

  // After the tables are filled.
  __device__ PatchSums(const PatchRoom &room, const PatchWarp &warp) {
#pragma unroll
    for (int t = 0; t < kTaps; ++t) shift_[t] = t < warp.taps ? room.shifts[warp.first + t] : 0;
  }

  // The steps of a stage, by code for just the taps that the warp has: nothing but the loads that a product needs keeps
  // it waiting.
  __device__ void add_patch(const PatchProduct &p, const PatchRoom &room, const PatchWarp &warp, int stage) {
    with_taps<kTaps>(warp.taps, [&](auto taps) { add_steps<decltype(taps)::value>(p, room, warp, stage); });
  }

  // All sums into shared memory, as they lie in registers: code that looks for a weight's sums there is short, and so
  // is there when it is wanted once.
  __device__ void hand_over(const PatchProduct &p, const PatchWarp &warp, float *shared) const {
    float *const to = shared + warp.index * p.warp_taps() * kPerTap * 32 + static_cast<int32_t>(threadIdx.x) % 32;
    const float *const all = &sums[0][0][0][0];
#pragma unroll
    for (int i = 0; i < kTaps * kPerTap; ++i)
      if (i / kPerTap < warp.taps) to[i * 32] = all[i];
  }

  // Sum i, a filter's channel, of a tap of the slice, over the warps that share its pixels, in order.
  __device__ static float sum_at(const PatchProduct &p, const float *shared, int32_t tap, int32_t i) {
    const int32_t filter = i >> p.row_shift, block = filter / 16, which = tap / p.warp_taps();
    int32_t channel = i & ((1 << p.row_shift) - 1);
    if (p.diagonal) channel += (filter >> p.row_shift << p.row_shift) - block / ChannelBlocks * ChannelBlocks * 16;
    const int32_t element = (((tap - which * p.warp_taps()) * ChannelBlocks + channel / 16) * 2 + channel / 8 % 2) * 4 +
                            filter / 8 % 2 * 2 + channel % 2;
    const int32_t lane = filter % 8 * 4 + channel / 2 % 4, of_warp = p.warp_taps() * kPerTap * 32;
    float sum = 0;
    for (int32_t part = 0; part < p.pixel_warps; ++part) {
      const int32_t warp = (part * p.tap_warps + which) * p.filter_blocks + block;
      sum += shared[warp * of_warp + element * 32 + lane];
    }
    return sum;
  }

 private:
  // Body(integral_constant) of a number of taps from 1 to Most.
  template <int Most, class Body>
  __device__ static void with_taps(int32_t taps, const Body &body) {
    if constexpr (Most > 0) {
      if (taps == Most) return body(std::integral_constant<int, Most>{});
      with_taps<Most - 1>(taps, body);
    }
  }

  // Pixels that do not exist are zeros of both factors: their windows may hold NaN.
  template <int Taps>
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
      for (int t = 0; t < Taps; ++t)
#pragma unroll
        for (int b = 0; b < ChannelBlocks; ++b) {
          uint32_t columns[4];
          load_transposed(columns, from + (shift_[t] & mask) + b * 32);
          multiply_add(sums[t][b][0], rows, columns, T());
          multiply_add(sums[t][b][1], rows, columns + 2, T());
        }
    }
  }

  uint32_t shift_[kTaps];
};

// Stores sum i of a tap of a tile as the gradient of a weight, where it is somebody's.
__device__ inline void store_weight(const PatchProduct &p, const PatchPlace &place, int32_t tap, int32_t i, float sum) {
  const int32_t filter = place.filter + (i >> p.row_shift), all = place.tap + tap, line = all / p.patches.taps[2];
  const int32_t channel = (p.diagonal ? 0 : place.channel % p.group_channels) + (i & ((1 << p.row_shift) - 1));
  if (filter < place.filter_end && channel < p.group_channels && all < p.patches.all_taps())
    store(p.result, p.result_type,
          p.weights.at(filter, channel, line / p.patches.taps[1], line % p.patches.taps[1],
                       all - line * p.patches.taps[2]),
          sum);
}

// A tile's sums, or those of a split of it, from shared memory to where they are wanted.
template <class Sums>
__device__ inline void leave_tile(const PatchProduct &p, const PatchPlace &place, const float *values, float *piece) {
  const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
  const int32_t taps = slice_taps(p, place);
#pragma unroll 1
  for (int32_t tap = 0; tap < taps; ++tap)
#pragma unroll 1
    for (int32_t i = thread; i < p.tap_sums(); i += threads) {
      const float sum = Sums::sum_at(p, values, tap, i);
      if (p.splits == 1)
        store_weight(p, place, tap, i, sum);
      else
        piece[tap * p.tap_sums() + i] = sum;
    }
  if (p.splits == 1) return;
  // Nobody's sums: the last slice of taps may be shorter, and the last quads are filled up.
  for (int32_t i = taps * p.tap_sums() + thread; i < p.quads() * 4; i += threads) piece[i] = 0;
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
  let_next_begin(), await_previous();
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
  let_next_begin(), await_previous();
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
  const int32_t tap = quad * 4 / p.tap_sums(), i = quad * 4 - tap * p.tap_sums(); // a quad is of one tap
  if (tap >= slice_taps(p, place)) return;
  const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int e = 0; e < 4; ++e) store_weight(p, place, tap, i + e, values[e]);
}

// ---------------------------------------------------------------- launch

inline void launch_patches(void (*kernel)(PatchProduct), const PatchProduct &p, int32_t blocks, int32_t threads,
                           int32_t shared_bytes, cudaStream_t stream) {
  if (p.early) return launch_early(kernel, static_cast<unsigned>(blocks), threads, shared_bytes, stream, p);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream>>>(
      p);
  check_launch("cuda-tensor/mma_weights");
}

template <class T, int ChannelBlocks>
PatchLauncher patch_launcher() {
  const auto prepare = [] {
    check(
        cudaFuncSetAttribute(sum_patches<T, ChannelBlocks>, cudaFuncAttributeMaxDynamicSharedMemorySize, kPatchShared),
        "asking for shared memory");
  };
  const auto launch = [](const PatchProduct &p, cudaStream_t stream) {
    launch_patches(sum_patches<T, ChannelBlocks>, p, p.all_tiles * p.splits, p.warps() * 32, p.shared_bytes(), stream);
    if (p.splits > 1) launch_patches(add_splits<T>, p, p.all_tiles * (p.quads() / 32), 32 * kAddingWays, 0, stream);
  };
  return {prepare, launch};
}

template <class T>
PatchLauncher patch_launcher_of(int channel_blocks) {
  return channel_blocks == 1 ? patch_launcher<T, 1>() : patch_launcher<T, 2>();
}

} // namespace polyconv::cuda::tensor
