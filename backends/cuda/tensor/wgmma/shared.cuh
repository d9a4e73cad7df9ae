// shared.cuh - the Hopper product for layers of few tiles: the blocks of a cluster share the depth of one tile.
// Each sums its part up and sends every other block the channels that that one adds up, straight into its shared
// memory; there they are added in the order of depth, finished and stored. So a split costs no second launch and no
// workspace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/cluster.cuh"
#include "common/ptx/hopper.cuh"
#include "wgmma/product.cuh"

namespace polyconv::cuda::wgmma {

template <class Type, int Pixels, int Channels, int Groups, int Blocks, bool Across = false>
struct SharedTileOf : TileOf<Type, Pixels, Channels, Groups, 1, Blocks, false, 128, 128, 1, Across> {
  using Base = TileOf<Type, Pixels, Channels, Groups, 1, Blocks, false, 128, 128, 1, Across>;
  static constexpr int summing = 128 * Groups; // threads that have sums, in units of four: two pixels', of 8 channels
  static constexpr int units = Channels / 8, unit_bytes = summing * int{sizeof(float4)},
                       leave_bytes = units * unit_bytes;
  static constexpr int stages = std::min(8, (Base::most_bytes - leave_bytes) / Base::stage_bytes);
  static constexpr int shared_bytes = stages * Base::stage_bytes + leave_bytes + 1024 + 256;
  static_assert(Base::rows == 1 && stages >= 3, "not a tile");
};

// The sums of this block's part of the depth, to the blocks that add them up: so many units each, behind those of the
// parts before. They lie as threads have them, so that a warp sends 512 bytes in a row, and a thread reads what its
// likes wrote.
template <class Tile>
__device__ inline void share(const float (&sums)[Tile::channels / 2], uint32_t partials, uint32_t arrived, int32_t part,
                             int32_t units) {
  const uint32_t mine = partials + (part * units * Tile::summing + threadIdx.x) * uint32_t{sizeof(float4)};
  int32_t owner = 0, next = units; // the first unit of the owner behind this one
  uint32_t to = ptx::address_in_cluster(mine, 0), barrier = ptx::address_in_cluster(arrived, 0);
#pragma unroll
  for (int unit = 0; unit < Tile::units; ++unit, to += Tile::unit_bytes) {
    if (unit == next) {
      ++owner, next += units;
      to = ptx::address_in_cluster(mine, owner), barrier = ptx::address_in_cluster(arrived, owner);
    }
    if (owner == part)
      ptx::store_vector(mine + (unit - owner * units) * Tile::unit_bytes, sums + 4 * unit);
    else
      ptx::send_in_cluster(to, sums + 4 * unit, barrier);
  }
}

// Finishes and stores two neighbouring channels of a pixel.
template <class Tile>
__device__ inline void store_sums(const Product &p, int32_t pixel, int32_t channel, float a, float b) {
  using T = typename Tile::T;
  if (pixel >= p.pixels || channel >= p.channels) return;
  if (p.plain) {
    const auto &e = p.conv.epilogue;
    const auto *bias = static_cast<const float *>(e.bias);
    if (bias != nullptr) a += bias[channel], b += bias[channel + 1];
    if (e.residual != nullptr) {
      const T *residual = static_cast<const T *>(e.residual) + p.conv.residual.offset;
      const float2 pair = load_pair(residual + pixel * p.residual_row + channel);
      a += e.residual_scale * pair.x, b += e.residual_scale * pair.y;
    }
    if (e.activation == POLYCONV_ACT_CLIPPED_RELU) a = ptx::lesser(a, e.alpha), b = ptx::lesser(b, e.alpha);
    const bool relu = e.activation != POLYCONV_ACT_NONE;
    T *const to = static_cast<T *>(p.result) + p.result_begin + pixel * p.result_row + channel;
    if constexpr (sizeof(T) == 4)
      *reinterpret_cast<float2 *>(to) = relu ? make_float2(ptx::greater(a, 0), ptx::greater(b, 0)) : make_float2(a, b);
    else
      *reinterpret_cast<uint32_t *>(to) = ptx::pack_pair<T>(a, b, relu);
    return;
  }
  Place<int64_t> at = p.conv.output.pixel_of(pixel);
  at.c = channel;
  finish_and_store(p.conv, p.result, a, at);
  if (++at.c < p.channels) finish_and_store(p.conv, p.result, b, at);
}

// Adds up this block's units in the order of depth.
template <class Tile>
__device__ inline void add_up(const Product &p, const Turn<Tile> &turn, const float4 *partials, int32_t part,
                              int32_t units) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t pixel = turn.pixel + thread / 32 * 16 + thread % 32 / 4;
  for (int32_t unit = 0; unit < units; ++unit) {
    float4 sum = {};
#pragma unroll 4
    for (int32_t from = 0; from < p.splits; ++from) {
      const float4 v = partials[(from * units + unit) * Tile::summing + thread];
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    const int32_t channel = turn.channel + (part * units + unit) * 8 + thread % 4 * 2;
    store_sums<Tile>(p, pixel, channel, sum.x, sum.y);
    store_sums<Tile>(p, pixel + 8, channel, sum.z, sum.w);
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
  const int32_t units = Tile::units / p.splits; // that a block adds up
  if (thread == 0) {
    ptx::barrier_init(arrived, 1);
    ring.init();
    ptx::barrier_expect(arrived, units * (p.splits - 1) * Tile::unit_bytes);
  }
  if (thread == 32) ptx::prefetch(&p.activations[0]), ptx::prefetch(&p.weights);
  ptx::cluster_arrive(); // every block is there, before any sends to it
  __syncthreads();
  ptx::let_next_begin();
  const Turn<Tile> turn(p, part * p.pixel_tiles * p.channel_tiles + block / p.splits);
  if (thread >= 128 * Tile::groups && fetches()) fetch<Tile>(p, turn, ring, true);
  ptx::await_previous();

  float sums[1][Tile::columns / 2];
  if (thread < 128 * Tile::groups) sum_up<Tile>(sums, p, turn, ring, thread / 128, 0);
  ptx::cluster_wait();
  if (thread >= Tile::summing) return;
  share<Tile>(sums[0], shared, arrived, part, units);
  ptx::barrier_wait(arrived, 0);
  add_up<Tile>(p, turn, reinterpret_cast<const float4 *>(unaligned + (shared - begin)), part, units);
}

template <class Tile>
Launcher shared_launcher() {
  const auto prepare = [] { allow_shared(multiply_shared<Tile>, Tile::shared_bytes); };
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
#define POLYCONV_WGMMA_LAUNCHER(pixels, channels, groups, teams, blocks, turned, row, parts)                         \
  &product_launcher<TileOf<T, pixels, tile_channels(channels, row, parts, sizeof(T)), groups, teams, blocks, turned, \
                           row, row, parts>>,
#define POLYCONV_WGMMA_SHARED_LAUNCHER(pixels, channels, groups, blocks) \
  &shared_launcher<SharedTileOf<T, pixels, channels, groups, blocks>>,
  static constexpr Launcher (*kLaunchers[])() = {POLYCONV_WGMMA_TILES(POLYCONV_WGMMA_LAUNCHER)
                                                     POLYCONV_WGMMA_SHARED_TILES(POLYCONV_WGMMA_SHARED_LAUNCHER)};
#undef POLYCONV_WGMMA_LAUNCHER
#undef POLYCONV_WGMMA_SHARED_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma

#define POLYCONV_INSTANCE(T) template wgmma::Launcher wgmma::launcher_of<T>(int);
