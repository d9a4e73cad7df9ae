// patch_sum.cuh - the product of a block: from patch to patch of its share, sums in registers, then their way out.
//
// Floor: the larger of one read of x and dy, and of shared memory: an instruction pair multiplies 16 filters by 16
// channels of 16 pixels, for which a warp reads 512 bytes of x a tap, four clocks of a multiprocessor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  __device__ PatchRoom(unsigned char *shared, const PatchProduct &p)
      : stages(shared),
        zeros(shared + p.tables_at),
        tables(zeros + kZerosBytes, p.patches),
        windows(tables.origins + p.patches.pixels) {}

  __device__ void fill(const PatchProduct &p) const {
    if (threadIdx.x < kZerosBytes / 4) reinterpret_cast<int32_t *>(zeros)[threadIdx.x] = 0;
    tables.fill(p.patches);
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

// The gradient's element of a tile's first filter and channel, and of the layer's first tap.
__device__ inline int64_t first_weight(const PatchProduct &p, const PatchPlace &place) {
  return p.weights.at(place.filter, p.diagonal ? 0 : place.channel % p.group_channels, 0, 0, 0);
}

// What a warp has of its block's tile: 16 filters, taps [first, first + taps), and of those that share them a part of
// the steps of 16 pixels.
struct PatchWarp {
  int32_t filter_block, first, taps, part;

  __device__ PatchWarp(const PatchProduct &p, const PatchPlace &place) {
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32, rest = warp / p.filter_blocks;
    filter_block = warp - rest * p.filter_blocks;
    part = rest / p.tap_warps;
    const int32_t which = rest - part * p.tap_warps, all = slice_taps(p, place);
    first = all * which / p.tap_warps;
    taps = all * (which + 1) / p.tap_warps - first;
  }
};

// Where the sums of a tile go: a piece, or the gradient itself; and how many of them are somebody's.
struct PatchTarget {
  int32_t filter_stride, channel_stride, tap_stride[3], first_tap; // elements
  int32_t filters, channels;

  __device__ static PatchTarget piece(const PatchProduct &p) {
    const int32_t row = p.row_channels(), taps = p.filters * row;
    return {row, 1,         {p.patches.taps[1] * p.patches.taps[2] * taps, p.patches.taps[2] * taps, taps},
            0,   p.filters, p.channels};
  }
  __device__ static PatchTarget gradient(const PatchProduct &p, const PatchPlace &place) {
    const auto stride = [&](int axis) { return static_cast<int32_t>(p.weights.stride[axis]); };
    return {stride(0),
            stride(1),
            {stride(2), stride(3), stride(4)},
            place.tap,
            place.filter_end - place.filter,
            place.channel_end - place.channel};
  }
  // Of a tap of the slice.
  __device__ int32_t tap(const PatchProduct &p, int32_t i) const {
    const int32_t all = first_tap + i, line = all / p.patches.taps[2], plane = line / p.patches.taps[1];
    return plane * tap_stride[0] + (line - plane * p.patches.taps[1]) * tap_stride[1] +
           (all - line * p.patches.taps[2]) * tap_stride[2];
  }
};

template <class T, int ChannelBlocks>
class PatchSums {
  static constexpr int kTaps = most_taps(ChannelBlocks), kPerTap = ChannelBlocks * 8; // sums of a lane

 public:
  float sums[kTaps][ChannelBlocks][2][4] = {};

  // The taps' distances, in bytes of a patch.
  __device__ PatchSums(const PatchProduct &p, const PatchPlace &place, const PatchWarp &warp) {
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      const int32_t tap = place.tap + warp.first + t, line = tap / p.patches.taps[2], plane = line / p.patches.taps[1];
      const int32_t h = line - plane * p.patches.taps[1], w = tap - line * p.patches.taps[2];
      shift_[t] =
          ((plane * p.patches.dilation[0] * p.patches.patch[2] + h * p.patches.dilation[1]) * p.patches.patch[3] +
           w * p.patches.dilation[2]) *
          p.x_pitch();
    }
  }

  // The steps of a stage, by code for just the taps that the warp has: nothing but the loads that a product needs keeps
  // it waiting.
  __device__ void add_patch(const PatchProduct &p, const PatchRoom &room, const PatchWarp &warp, int stage) {
    with_taps<kTaps>(warp.taps, [&](auto taps) { add_steps<decltype(taps)::value>(p, room, warp, stage); });
  }

  // Warps that share pixels add their sums, in order, in the first of them. By the whole block.
  __device__ void join(const PatchProduct &p, unsigned char *shared, const PatchWarp &warp) {
    if (p.pixel_warps == 1) return;
    const int32_t thread = static_cast<int32_t>(threadIdx.x), which = thread / 32 % (p.filter_blocks * p.tap_warps);
    float *const mine = reinterpret_cast<float *>(shared) + which * p.warp_taps() * kPerTap * 32 + thread % 32;
    float *const all = &sums[0][0][0][0];
#pragma unroll 1
    for (int32_t part = 1; part < p.pixel_warps; ++part) {
      __syncthreads();
      if (warp.part == part) {
#pragma unroll
        for (int i = 0; i < kTaps * kPerTap; ++i)
          if (i / kPerTap < warp.taps) mine[i * 32] = all[i];
      }
      __syncthreads();
      if (warp.part == 0) {
#pragma unroll
        for (int i = 0; i < kTaps * kPerTap; ++i)
          if (i / kPerTap < warp.taps) all[i] += mine[i * 32];
      }
    }
  }

  // The lane's sums that are somebody's, each in its place.
  template <class Out>
  __device__ void leave(const PatchProduct &p, const PatchWarp &warp, const PatchTarget &target, Out *to) const {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, row = warp.filter_block * 16 + lane / 4;
    const int32_t base = p.diagonal ? warp.filter_block / ChannelBlocks * ChannelBlocks * 16 : 0;
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      if (t >= warp.taps) break;
      Out *const at = to + target.tap(p, warp.first + t);
#pragma unroll
      for (int b = 0; b < ChannelBlocks; ++b)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int32_t filter = row + i / 2 * 8, channel = base + b * 16 + half * 8 + lane % 4 * 2 + i % 2;
            const bool mine =
                p.diagonal ? channel >> p.group_shift == filter >> p.group_shift : channel < target.channels;
            const int32_t column = p.diagonal ? channel & (p.group_channels - 1) : channel;
            if (mine && filter < target.filters)
              at[filter * target.filter_stride + column * target.channel_stride] =
                  static_cast<Out>(sums[t][b][half][i]);
          }
    }
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

// What becomes of the sum over a tile's pieces.
struct PatchLeave {
  PatchProduct p;

  __device__ void store(int32_t tile, int32_t i, const float4 &v) const {
    const PatchPlace place(p, tile);
    const PatchTarget target = PatchTarget::gradient(p, place);
    const float values[4] = {v.x, v.y, v.z, v.w};
    const int64_t first = first_weight(p, place);
    for (int32_t e = 0; e < 4; ++e) {
      const int32_t at = i * 4 + e, row = at / p.row_channels(), tap = row / p.filters;
      const int32_t filter = row - tap * p.filters, channel = at - row * p.row_channels();
      if (tap >= slice_taps(p, place) || filter >= target.filters || (!p.diagonal && channel >= target.channels))
        continue;
      polyconv::cuda::store(
          p.result, p.result_type,
          first + filter * target.filter_stride + channel * target.channel_stride + target.tap(p, tap), values[e]);
    }
  }
};

template <class T, int ChannelBlocks>
__device__ inline void leave_gradient(const PatchProduct &p, const PatchPlace &place, const PatchWarp &warp,
                                      const PatchSums<T, ChannelBlocks> &sums) {
  const PatchTarget target = PatchTarget::gradient(p, place);
  const int64_t first = first_weight(p, place);
  if (p.result_type == POLYCONV_F32)
    sums.leave(p, warp, target, static_cast<float *>(p.result) + first);
  else
    sums.leave(p, warp, target, static_cast<T *>(p.result) + first);
}

// Blocks of one split come one after the other: they read the same pixels at the same time.
template <class T, int ChannelBlocks>
__global__ void __launch_bounds__(kPatchThreads, 1) sum_patches(const __grid_constant__ PatchProduct p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const PatchRoom room(shared, p);
  room.fill(p);
  const int32_t split = static_cast<int32_t>(blockIdx.x) / p.all_tiles;
  const int32_t tile = static_cast<int32_t>(blockIdx.x) - split * p.all_tiles;
  const PatchPlace place(p, tile);
  const PatchWarp warp(p, place);
  PatchSums<T, ChannelBlocks> sums(p, place, warp);
  const auto first = static_cast<int32_t>(int64_t{p.patches.count} * split / p.splits);
  const auto last = static_cast<int32_t>(int64_t{p.patches.count} * (split + 1) / p.splits);
  const auto fetch = [&](int32_t patch, int stage) {
    if (patch < last) room.template fetch<T>(p, place, patch, stage);
    commit_copies();
  };
  __syncthreads(); // the tables are there
  fetch(first, 0);
  for (int32_t patch = first, stage = 0; patch < last; ++patch, stage ^= 1) {
    fetch(patch + 1, stage ^ 1);
    await_groups<1>();
    __syncthreads();
    sums.add_patch(p, room, warp, stage);
    __syncthreads(); // nobody reads the stage any more
  }
  sums.join(p, shared, warp);
  if (warp.part > 0) return;
  if (p.splits == 1) return leave_gradient(p, place, warp, sums);
  float *const piece = p.pieces + (int64_t{tile} * p.splits + split) * p.quads() * 4;
  sums.leave(p, warp, PatchTarget::piece(p), piece);
  // Nobody's sums: the last slice of taps may be shorter, and the last quads are filled up.
  for (int32_t i = slice_taps(p, place) * p.filters * p.row_channels() + static_cast<int32_t>(threadIdx.x);
       i < p.quads() * 4; i += 32 * p.filter_blocks * p.tap_warps)
    piece[i] = 0;
}

// ---------------------------------------------------------------- launch

template <class T, int ChannelBlocks>
PatchLauncher patch_launcher() {
  const auto prepare = [] {
    check(
        cudaFuncSetAttribute(sum_patches<T, ChannelBlocks>, cudaFuncAttributeMaxDynamicSharedMemorySize, kPatchShared),
        "asking for shared memory");
  };
  const auto launch = [](const PatchProduct &p, cudaStream_t stream) {
    sum_patches<T, ChannelBlocks>
        <<<static_cast<unsigned>(p.all_tiles * p.splits), static_cast<unsigned>(p.warps() * 32),
           static_cast<size_t>(p.shared_bytes()), stream>>>(p);
    check_launch("cuda-tensor/mma_weights");
    if (p.splits == 1) return;
    const Shares one_each = make_shares(p.all_tiles, p.splits, int64_t{p.all_tiles} * p.splits, p.all_tiles);
    launch_add_pieces(one_each, p.pieces, p.quads(), PatchLeave{p}, stream);
  };
  return {prepare, launch};
}

template <class T>
PatchLauncher patch_launcher_of(int channel_blocks) {
  return channel_blocks == 1 ? patch_launcher<T, 1>() : patch_launcher<T, 2>();
}

} // namespace polyconv::cuda::tensor
