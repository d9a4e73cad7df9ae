// wgmma_shared.cuh - the Hopper product for layers of few tiles: the blocks of a cluster share the depth of one tile.
// Each sums its part up and sends every other block the rows that that one adds up, straight into its shared memory;
// there they are added in the order of depth, finished and stored. So a split costs no second launch and no workspace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ptx_cluster.cuh"
#include "wgmma_product.cuh"

namespace polyconv::cuda::wgmma {

template <class Type, int Pixels, int Channels, int Groups, int Blocks>
struct SharedTileOf : TileOf<Type, Pixels, Channels, Groups, 1, Blocks, false> {
  using Base = TileOf<Type, Pixels, Channels, Groups, 1, Blocks, false>;
  static constexpr int row_floats = Channels + 8; // of partial sums: rows of products fall into different banks
  static constexpr int leave_bytes = (Pixels * row_floats * int{sizeof(float)} + 1023) / 1024 * 1024;
  static constexpr int stages = std::min(8, (Base::most_bytes - leave_bytes) / Base::stage_bytes);
  static constexpr int shared_bytes = stages * Base::stage_bytes + leave_bytes + 1024 + 256;
  static_assert(Base::rows == 1 && stages >= 3, "not a tile");
};

// The sums of this block's part of the depth, to the blocks that add them up: so many rows each, behind those of the
// parts before.
template <class Tile>
__device__ inline void share(const float (&sums)[Tile::channels / 2], uint32_t partials, uint32_t arrived, int32_t part,
                             int32_t rows) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto row = static_cast<int32_t>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4) + 8 * half;
    const int32_t at = (part * rows + row % rows) * Tile::row_floats + static_cast<int32_t>(threadIdx.x % 4) * 2;
    const uint32_t to = ptx::address_in_cluster(partials + at * 4, row / rows);
    const uint32_t barrier = ptx::address_in_cluster(arrived, row / rows);
#pragma unroll
    for (int j = 0; j < Tile::channels / 8; ++j)
      ptx::send_in_cluster(to + j * 32, sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1], barrier);
  }
}

// Adds up eight channels of a pixel, finishes and stores them.
template <class Tile>
__device__ inline void add_up(const Product &p, const float *partials, int32_t rows, int32_t pixel, int32_t channel) {
  using T = typename Tile::T;
  float v[8] = {};
  for (int32_t part = 0; part < p.splits; ++part, partials += rows * Tile::row_floats)
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += partials[i];
  if (pixel >= p.pixels) return;
  if (p.plain && channel + 8 <= p.channels) {
    const auto *bias = static_cast<const float *>(p.conv.epilogue.bias);
    const bool relu = p.conv.epilogue.activation == POLYCONV_ACT_RELU;
    alignas(16) T values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float biased = bias != nullptr ? v[i] + bias[channel + i] : v[i];
      values[i] = static_cast<T>(relu ? ptx::greater(biased, 0) : biased);
    }
    auto *to = reinterpret_cast<uint4 *>(static_cast<T *>(p.result) + p.result_begin + pixel * p.result_row + channel);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof values / 16); ++i) to[i] = reinterpret_cast<const uint4 *>(values)[i];
    return;
  }
  Place<int64_t> at = p.conv.output.pixel_of(pixel);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    at.c = channel + i;
    if (at.c < p.channels) finish_and_store(p.conv, p.result, v[i], at);
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_shared(const __grid_constant__ Product p) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t begin = ptx::shared_address(unaligned), shared = (begin + 1023) / 1024 * 1024;
  Ring<Tile> ring(shared + Tile::leave_bytes);
  const uint32_t arrived = shared + Tile::leave_bytes + Tile::stages * Tile::stage_bytes + 8 * (2 * Tile::stages + 1);
  const auto block = static_cast<int32_t>(blockIdx.x), part = block % p.splits;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t rows = Tile::pixels / p.splits;
  if (thread == 0) {
    ptx::barrier_init(arrived, 1);
    ring.init();
    ptx::barrier_expect(arrived, Tile::pixels * Tile::channels * int{sizeof(float)});
  }
  if (thread == 32) ptx::prefetch(&p.activations[0]), ptx::prefetch(&p.weights);
  ptx::cluster_arrive(); // every block is there, before any sends to it
  __syncthreads();
  ptx::let_next_begin();
  const Turn<Tile> turn(p, part * p.pixel_tiles * p.channel_tiles + block / p.splits);
  if (thread >= 128 * Tile::groups && fetches()) fetch<Tile>(p, turn, ring, true);
  ptx::await_previous();

  float sums[1][Tile::columns / 2];
  if (thread < 128 * Tile::groups) sum_up<Tile>(sums, turn, ring, thread / 128, 0);
  ptx::cluster_wait();
  if (thread < 128 * Tile::groups) share<Tile>(sums[0], shared, arrived, part, rows);
  ptx::barrier_wait(arrived, 0);
  constexpr int kVectors = Tile::channels / 8;
  const auto *partials = reinterpret_cast<const float *>(unaligned + (shared - begin));
  for (int32_t i = thread; i < rows * kVectors; i += Tile::threads) {
    const int32_t row = i / kVectors, channel = i % kVectors * 8;
    add_up<Tile>(p, partials + row * Tile::row_floats + channel, rows, turn.pixel + part * rows + row,
                 turn.channel + channel);
  }
}

template <class Tile>
Launcher shared_launcher() {
  const auto prepare = [] {
    check(cudaFuncSetAttribute(multiply_shared<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::shared_bytes),
          "asking for shared memory");
    check(cudaFuncSetAttribute(multiply_shared<Tile>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "asking for clusters of 16");
  };
  const auto launch = [](const Product &p, int, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(p.pixel_tiles * p.channel_tiles * p.splits);
    launch_clusters(multiply_shared<Tile>, static_cast<unsigned>(p.splits), blocks, Tile::threads, Tile::shared_bytes,
                    stream, p);
  };
  return {prepare, launch};
}

// The launcher of each shape, in the order of kShapes.
template <class T>
Launcher launcher_of(int shape) {
#define POLYCONV_WGMMA_LAUNCHER(pixels, channels, groups, teams, blocks, turned) \
  &product_launcher<TileOf<T, pixels, channels, groups, teams, blocks, turned>>,
#define POLYCONV_WGMMA_SHARED_LAUNCHER(pixels, channels, groups, blocks) \
  &shared_launcher<SharedTileOf<T, pixels, channels, groups, blocks>>,
  static constexpr Launcher (*kLaunchers[])() = {POLYCONV_WGMMA_TILES(POLYCONV_WGMMA_LAUNCHER)
                                                     POLYCONV_WGMMA_SHARED_TILES(POLYCONV_WGMMA_SHARED_LAUNCHER)};
#undef POLYCONV_WGMMA_LAUNCHER
#undef POLYCONV_WGMMA_SHARED_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma
