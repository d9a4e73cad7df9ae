// product.cuh - the kernel of the gradient of weights on Hopper, and its launch: workers sum the pieces that are
// theirs (weights.cuh), and what they leave is a piece in the workspace, or a whole tile. Where the device runs all
// blocks at once, they then wait for each other, and add the pieces themselves (quads.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cooperative_groups.h>

#include <utility>

#include "common/device/launch.hpp"
#include "weights/shared.cuh"
#include "weights/weights.cuh"

namespace polyconv::cuda::wgmma {

// The ring in shared memory, swizzled, from a multiple of 1024 bytes on.
template <class Tile, bool Paired = false>
__device__ inline unsigned char *begin_product(const WeightsProduct &p, unsigned char *unaligned) {
  const uint32_t begin = ptx::shared_address(unaligned), shared = (begin + 1023) / 1024 * 1024;
  if (threadIdx.x == 0) WeightsRing<Tile, Paired>(shared).init();
  if (threadIdx.x == 32) ptx::prefetch(&p.activations[0]), ptx::prefetch(&p.gradients[0]);
  __syncthreads();
  if constexpr (Paired) ptx::cluster_arrive(), ptx::cluster_wait();
  ptx::let_next_begin();
  return unaligned + (shared - begin);
}

// A block's tile of a pair.
__device__ inline int32_t tile_of_pair(const WeightsProduct &p, int32_t pair) {
  const auto mine = static_cast<int32_t>(blockIdx.x % 2);
  if (p.pairs == kPairsOfRows) return pair * 2 + mine; // tiles lie row after row, of which there are an even number
  const int32_t column = p.by_row_tiles(pair);
  return (column + mine) * p.row_tiles + pair;
}

// Body(tile, first, last, piece) for the blocks of depth of every tile in this block's share.
template <bool Paired, class Body>
__device__ inline void for_own_pieces(const WeightsProduct &p, const Body &body) {
  const auto block = static_cast<int>(blockIdx.x);
  if constexpr (!Paired) return for_pieces(p.shares, block, body);
  for_pieces(p.shares, block / 2, [&](int32_t pair, int32_t first, int32_t last, int64_t piece) {
    body(tile_of_pair(p, pair), first, last, piece * 2 + block % 2);
  });
}

template <class Tile, bool Paired>
__global__ void __launch_bounds__(Tile::threads, 1) multiply_pixels(const __grid_constant__ WeightsProduct p) {
  extern __shared__ unsigned char unaligned[];
  unsigned char *const shared = begin_product<Tile, Paired>(p, unaligned);
  WeightsRing<Tile, Paired> ring(ptx::shared_address(shared));
  const auto group = static_cast<int>(threadIdx.x / 128);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    if (threadIdx.x / 32 == 4 * Tile::groups)
      for_own_pieces<Paired>(p, [&](int32_t tile, int32_t first, int32_t last, int64_t) {
        fetch_weights<Tile>(p, tile, first, last, ring);
      });
    if (p.together) cooperative_groups::this_grid().sync();
    if constexpr (Paired) ptx::cluster_arrive(), ptx::cluster_wait();
    return;
  }
  ptx::take_registers<Tile::consumer_registers>();
  ptx::await_previous();
  const Slice slice(shared + Tile::slices_at + threadIdx.x / 32 * Slice::kBytes);
  WeightsSums<Tile> sums;
  for_own_pieces<Paired>(p, [&](int32_t tile, int32_t first, int32_t last, int64_t piece) {
    const int row_group = group % Tile::row_groups, chunk_group = group / Tile::row_groups;
    sum_blocks<Tile>(sums, last - first, ring, row_group, chunk_group);
    if (p.narrow)
      store_piece<Tile>(reinterpret_cast<typename Tile::T *>(p.pieces) + piece * Tile::piece, sums, row_group,
                        chunk_group);
    else if (!p.whole || last - first < p.shares.blocks)
      store_piece<Tile>(p.pieces + piece * Tile::piece, sums, row_group, chunk_group);
    else if (p.result_type == POLYCONV_F32)
      store_tile<Tile, float>(p, tile, sums, row_group, chunk_group, slice);
    else
      store_tile<Tile, typename Tile::T>(p, tile, sums, row_group, chunk_group, slice);
  });
  if (p.together) {
    const auto grid = cooperative_groups::this_grid();
    auto token = grid.barrier_arrive();
    add_quads<typename Tile::T>(p, shape_of<Tile>(), 4 * Tile::groups, static_cast<int32_t>(blockIdx.x),
                                static_cast<int32_t>(gridDim.x), [&] { grid.barrier_wait(std::move(token)); });
  }
  if constexpr (Paired) ptx::cluster_arrive(), ptx::cluster_wait(); // nobody fetches or arrives where nobody is
}

// Likewise, of clusters: a tile each.
template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 1) multiply_shared_pixels(const __grid_constant__ WeightsProduct p) {
  extern __shared__ unsigned char unaligned[];
  unsigned char *const shared = begin_product<Tile>(p, unaligned);
  WeightsRing<Tile> ring(ptx::shared_address(shared));
  const ClusterPart mine(p);
  const auto group = static_cast<int>(threadIdx.x / 128);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    if (threadIdx.x / 32 == 4 * Tile::groups) fetch_weights<Tile>(p, mine.tile, mine.first, mine.last, ring);
    return;
  }
  ptx::take_registers<Tile::consumer_registers>();
  ptx::await_previous();
  const int row_group = group % Tile::row_groups, chunk_group = group / Tile::row_groups;
  const Exchange<Tile> exchange(shared);
  {
    WeightsSums<Tile> sums;
    if (mine.last > mine.first)
      sum_blocks<Tile>(sums, mine.last - mine.first, ring, row_group, chunk_group);
    else
      clear<Tile>(sums);
    exchange.write(sums, row_group, chunk_group);
  }
  exchange.leave(p, mine);
}

// ---------------------------------------------------------------- launch

template <class Tile, int32_t ways>
WeightsLauncher weights_launcher() {
  const auto prepare = [] {
    allow_shared(multiply_pixels<Tile, false>, Tile::shared_bytes);
    if constexpr ((ways & kInClusters) != 0) allow_shared(multiply_shared_pixels<Tile>, Tile::shared_bytes);
    if constexpr ((ways & kInPairs) != 0) allow_shared(multiply_pixels<Tile, true>, Tile::shared_bytes);
  };
  const auto launch = [](const WeightsProduct &p, cudaStream_t stream) {
    auto kernel = multiply_pixels<Tile, false>;
    if constexpr ((ways & kInClusters) != 0)
      if (p.sharing > 1) kernel = multiply_shared_pixels<Tile>;
    if constexpr ((ways & kInPairs) != 0)
      if (p.pairs != kNoPairs) kernel = multiply_pixels<Tile, true>;
    const auto cluster = static_cast<unsigned>(cluster_of(p)),
               blocks = static_cast<unsigned>(p.shares.workers) * cluster;
    if (p.together && launch_together(kernel, cluster, blocks, Tile::threads, Tile::shared_bytes, stream, p))
      return true;
    WeightsProduct apart = p;
    apart.together = 0;
    launch_clusters(kernel, cluster, blocks, Tile::threads, Tile::shared_bytes, stream, apart);
    return leaves_whole(p);
  };
  return {prepare, launch};
}

} // namespace polyconv::cuda::wgmma
