// wgmma_leave.cuh - tiles of the Hopper product: their shapes, their order, and how sums leave. A warp has 16 pixels of
// every product of its warpgroup. Where a result's pixels are equally far apart, it finishes a box of their channels,
// swizzles it into shared memory, and has the TMA carry it out while it goes on; else it stores element by element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "common/epilogue.cuh"
#include "ptx_hopper.cuh"
#include "wgmma_product.hpp"

namespace polyconv::cuda::wgmma {

// WeightsRow: bytes of a channel's weights in a block of depth.
template <class Type, int Pixels, int Channels, int Groups, int Teams, int Blocks, int WeightsRow = 128>
struct TileOf {
  using T = Type;
  static constexpr int pixels = Pixels, channels = Channels, blocks = Blocks;
  static constexpr int groups = Groups, teams = Teams, team_groups = Groups / Teams; // warpgroups that compute
  static constexpr int threads = 128 * (Groups + 1);                                 // theirs, then the producer's
  static constexpr int depth = 128 / sizeof(T);            // of a block of depth: one row of swizzled memory
  static constexpr int rows = Pixels / (64 * team_groups); // products of 64 pixels of a warpgroup
  static constexpr int weights_row = WeightsRow;
  static constexpr int activation_bytes = Pixels * 128, stage_bytes = activation_bytes + Channels * WeightsRow;
  // A warp's boxes of 16 pixels on their way out: all of a tile, where three stages fit beside them.
  static constexpr int box = box_channels(Channels, sizeof(T)), row_bytes = box * sizeof(T), box_bytes = 16 * row_bytes;
  static constexpr int most_bytes = 233472 / Blocks - 1024 - 1024 - 256; // less the system's, alignment, barriers
  static constexpr int boxes =
      std::min(rows * Channels / box, (most_bytes - 3 * stage_bytes) / (4 * Groups * box_bytes));
  static constexpr int leave_bytes = 4 * Groups * boxes * box_bytes;
  static constexpr int stages = std::min(8, (most_bytes - leave_bytes) / stage_bytes);
  static constexpr int shared_bytes = stages * stage_bytes + leave_bytes + 1024 + 256;
  // Registers of a thread: at launch, which the compiler knows, then of producers and consumers.
  static constexpr int registers = 65536 / Blocks / threads / 8 * 8, producer_registers = 40;
  static constexpr int consumer_registers =
      std::min(240, (registers * threads - producer_registers * 128) / (128 * Groups) / 8 * 8);
  static_assert(rows * 64 * team_groups == Pixels && Channels % 32 == 0 && stages >= 3 && boxes >= 1, "not a tile");
};

// The share of one turn: a tile and a range of its blocks of depth. Neighbouring turns share pixels; splits go last.
template <class Tile>
struct Turn {
  int32_t pixel, channel, split, first, last;

  __device__ Turn(const Product &p, int32_t turn) {
    const int32_t rest = turn / p.channel_tiles;
    channel = (turn - rest * p.channel_tiles) * Tile::channels;
    split = rest / p.pixel_tiles;
    pixel = (rest - split * p.pixel_tiles) * Tile::pixels;
    first = static_cast<int32_t>(static_cast<int64_t>(p.depth_blocks) * split / p.splits);
    last = static_cast<int32_t>(static_cast<int64_t>(p.depth_blocks) * (split + 1) / p.splits);
  }
  __device__ static int32_t count(const Product &p) { return p.pixel_tiles * p.channel_tiles * p.splits; }
};

// A thread's part of 32 channels and 16 pixels: value i belongs to pixel t / 4 + i / 8 * 8 of the warp's and to the
// channel of channel_of.
using Values = float[16];

__device__ inline int32_t channel_of(int32_t channel, int i) {
  return channel + static_cast<int32_t>(threadIdx.x % 4) * 2 + i % 8 / 2 * 8 + i % 2;
}

// Of a chunk of 32 channels, as the products leave them.
__device__ inline void take(const float *sums, Values &v) {
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = sums[i % 8 / 2 * 4 + i / 8 * 2 + i % 2];
}

// ---------------------------------------------------------------- out through shared memory

// Two values rounded to a 16-bit type.
template <class T>
__device__ inline uint32_t pack_pair(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t &>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t &>(pair);
  }
}

// A warp's boxes, which take turns.
template <class Tile>
class Outlet {
  using T = typename Tile::T;

 public:
  __device__ explicit Outlet(uint32_t memory) : first_(memory + threadIdx.x / 32 * Tile::boxes * Tile::box_bytes) {
    // Swizzled as the TMA expects it: the 16 bytes of 8 channels change places with the row.
    if constexpr (sizeof(T) == 4) { // pairs of channels of row t / 4
      const uint32_t row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
      mine_ = row * 128 + (quad / 2 ^ row) * 16 + quad % 2 * 8;
    } else { // rows of matrices, and those 8 channels on
      const uint32_t row = threadIdx.x % 16, swizzle = Tile::row_bytes == 128 ? row % 8 : row / 2 % 4;
      mine_ = row * Tile::row_bytes + (threadIdx.x % 32 / 16 ^ swizzle) * 16;
    }
  }

  // Waits until the box that comes next has been read.
  __device__ void open() const {
    if (threadIdx.x % 32 == 0) ptx::stores_read<Tile::boxes - 1>();
    __syncwarp();
  }
  // 32 channels of 16 pixels into the box, rounded to its type.
  __device__ void put(const Values &v, int chunk) const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < 16; i += 2) ptx::store_pair(next() + (mine_ ^ i % 8 / 2 * 32) + i / 8 * 1024, v[i], v[i + 1]);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t w[4]; // pairs of: upper 8 pixels, lower 8; then 8 channels on
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int at = j % 2 * 8 + i * 4 + j / 2 * 2;
          w[j] = pack_pair<T>(v[at], v[at + 1]);
        }
        ptx::store_matrices(next() + (mine_ ^ (chunk * 4 + i * 2) * 16), w[0], w[1], w[2], w[3]);
      }
    }
  }
  __device__ void send(const CUtensorMap *map, int32_t channel, int32_t pixel) {
    ptx::fence_for_tma();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      ptx::store_box(map, next(), channel, pixel);
      ptx::stores_commit();
    }
    if (++next_ == Tile::boxes) next_ = 0;
  }
  // Nobody may leave before the TMA has read all boxes.
  __device__ void close() const {
    if (threadIdx.x % 32 == 0) ptx::stores_read<0>();
  }

 private:
  __device__ uint32_t next() const {
    return first_ + next_ * Tile::box_bytes;
  }

  uint32_t first_, mine_, next_ = 0; // mine_: where in a box this thread's stores begin
};

// ---------------------------------------------------------------- element by element

// Everything that an epilogue can be, one value after the other, which go round in their registers. Stores them where
// the result does not leave in boxes. `first`: the warp's first pixel.
__device__ inline void finish_each(const Product &p, Values &v, int32_t first, int32_t channel) {
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    const int32_t pixel = first + static_cast<int32_t>(threadIdx.x % 32 / 4) + 8 * half;
    const int32_t row = pixel / p.out[2], plane = row / p.out[1], image = plane / p.out[0];
    Place<int64_t> at = {image, 0, plane - image * p.out[0], row - plane * p.out[1], pixel - row * p.out[2]};
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
      at.c = channel_of(channel, i);
      float finished = v[0];
      if (pixel < p.pixels && at.c < p.channels) {
        finished = finish(p.conv, finished, at);
        if (!p.boxes) put(p.conv, p.result, finished, at);
      }
#pragma unroll
      for (int j = 0; j < 15; ++j) v[j] = v[j + 1];
      v[15] = finished;
    }
  }
}

__device__ inline void store_partials(const Product &p, const Values &v, int32_t first, int32_t channel,
                                      int32_t split) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t pixel = first + static_cast<int32_t>(threadIdx.x % 32 / 4) + 8 * half;
    float *to = p.partials + (static_cast<int64_t>(split) * p.pixels + pixel) * p.partials_row;
#pragma unroll
    for (int i = 8 * half; i < 8 * half + 8; i += 2) {
      const int32_t c = channel_of(channel, i);
      if (pixel < p.pixels && c < p.partials_row) *reinterpret_cast<float2 *>(to + c) = make_float2(v[i], v[i + 1]);
    }
  }
}

// ---------------------------------------------------------------- a product of 64 pixels leaves

// Bias and relu, what most layers have: everything unrolled.
template <class Tile>
__device__ inline void leave_plainly(const Product &p, const float (&sums)[Tile::channels / 2], int32_t first,
                                     int32_t pixel, Outlet<Tile> &outlet) {
  const auto *bias = static_cast<const float *>(p.conv.epilogue.bias);
  const float least = p.conv.epilogue.activation == POLYCONV_ACT_RELU ? 0.0f : -INFINITY;
#pragma unroll
  for (int box = 0; box < Tile::channels / Tile::box; ++box) {
    const int32_t channel = first + box * Tile::box;
    if (channel >= p.channels) break;
    outlet.open();
#pragma unroll
    for (int chunk = 0; chunk < Tile::box / 32; ++chunk) {
      Values v;
      take(sums + box * (Tile::box / 2) + chunk * 16, v);
      if (bias != nullptr) {
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
          const int32_t c = channel_of(channel + 32 * chunk, i);
          const float2 pair = c < p.channels ? *reinterpret_cast<const float2 *>(bias + c) : float2{};
          v[i] += pair.x, v[i + 1] += pair.y, v[i + 8] += pair.x, v[i + 9] += pair.y;
        }
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) v[i] = ptx::greater(v[i], least);
      outlet.put(v, chunk);
    }
    outlet.send(&p.results, channel, pixel);
  }
}

// `row`: of the tile's pixels, the first of these 64.
template <class Tile>
__device__ inline void leave(const Product &p, const float (&sums)[Tile::channels / 2], const Turn<Tile> &turn,
                             int32_t row, Outlet<Tile> &outlet) {
  const int32_t pixel = turn.pixel + row + static_cast<int32_t>(threadIdx.x % 128 / 32 * 16); // the warp's first
  if (p.plain) return leave_plainly<Tile>(p, sums, turn.channel, pixel, outlet);
  constexpr int kChunks = Tile::channels / 32, kBox = Tile::box / 32;
#pragma unroll 1
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int32_t channel = turn.channel + 32 * chunk;
    Values v;
#pragma unroll
    for (int which = 0; which < kChunks; ++which) // registers have no index
      if (which == chunk) take(sums + 16 * which, v);
    if (p.partials != nullptr) {
      store_partials(p, v, pixel, channel, turn.split);
      continue;
    }
    if (p.boxes && chunk % kBox == 0) outlet.open();
    finish_each(p, v, pixel, channel);
    if (!p.boxes) continue;
    outlet.put(v, chunk % kBox);
    if (chunk % kBox == kBox - 1) outlet.send(&p.results, channel - 32 * (kBox - 1), pixel);
  }
}

} // namespace polyconv::cuda::wgmma
