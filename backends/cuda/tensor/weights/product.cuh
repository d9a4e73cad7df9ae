// product.cuh - the kernel of the gradient of weights on Hopper, and its launch: workers sum the pieces that are
// theirs (weights.cuh), and what they leave is a piece in the workspace, or a whole tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "weights/shared.cuh"
#include "weights/weights.cuh"

namespace polyconv::cuda::wgmma {

// The ring in shared memory, swizzled, from a multiple of 1024 bytes on.
template <class Tile>
__device__ inline unsigned char *begin_product(const WeightsProduct &p, unsigned char *unaligned) {
  const uint32_t begin = ptx::shared_address(unaligned), shared = (begin + 1023) / 1024 * 1024;
  if (threadIdx.x == 0) WeightsRing<Tile>(shared).init();
  if (threadIdx.x == 32) ptx::prefetch(&p.activations[0]), ptx::prefetch(&p.gradients[0]);
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it
  return unaligned + (shared - begin);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks)
    multiply_pixels(const __grid_constant__ WeightsProduct p) {
  extern __shared__ unsigned char unaligned[];
  WeightsRing<Tile> ring(ptx::shared_address(begin_product<Tile>(p, unaligned)));
  const auto worker = static_cast<int>(blockIdx.x), group = static_cast<int>(threadIdx.x / 128);
  if (group == Tile::groups) {
    if constexpr (Tile::blocks == 1) ptx::release_registers<Tile::producer_registers>();
    if (threadIdx.x / 32 == 4 * Tile::groups)
      for_pieces(p.shares, worker, [&](int32_t tile, int32_t first, int32_t last, int64_t) {
        fetch_weights<Tile>(p, tile, first, last, ring);
      });
    return;
  }
  if constexpr (Tile::blocks == 1) ptx::take_registers<Tile::consumer_registers>();
  WeightsSums<Tile> sums;
  for_pieces(p.shares, worker, [&](int32_t tile, int32_t first, int32_t last, int64_t piece) {
    const int row_group = group % Tile::row_groups, chunk_group = group / Tile::row_groups;
    sum_blocks<Tile>(sums, last - first, ring, row_group, chunk_group);
    if (!p.whole || last - first < p.shares.blocks)
      store_piece<Tile>(p.pieces + piece * Tile::piece, sums, row_group, chunk_group);
    else if (p.result_type == POLYCONV_F32)
      store_tile<Tile, float>(p, tile, sums, row_group, chunk_group);
    else
      store_tile<Tile, typename Tile::T>(p, tile, sums, row_group, chunk_group);
  });
}

// Likewise, of clusters: a tile each.
template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks)
    multiply_shared_pixels(const __grid_constant__ WeightsProduct p) {
  extern __shared__ unsigned char unaligned[];
  unsigned char *const shared = begin_product<Tile>(p, unaligned);
  WeightsRing<Tile> ring(ptx::shared_address(shared));
  const ClusterPart mine(p);
  const auto group = static_cast<int>(threadIdx.x / 128);
  if (group == Tile::groups) {
    if constexpr (Tile::blocks == 1) ptx::release_registers<Tile::producer_registers>();
    if (threadIdx.x / 32 == 4 * Tile::groups) fetch_weights<Tile>(p, mine.tile, mine.first, mine.last, ring);
    return;
  }
  if constexpr (Tile::blocks == 1) ptx::take_registers<Tile::consumer_registers>();
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
  exchange.leave(p, mine.part, mine.tile);
}

// ---------------------------------------------------------------- launch

template <class Tile>
WeightsLauncher weights_launcher() {
  const auto prepare = [] {
    allow_shared(multiply_pixels<Tile>, Tile::shared_bytes);
    allow_shared(multiply_shared_pixels<Tile>, Tile::lone_bytes);
  };
  const auto launch = [](const WeightsProduct &p, cudaStream_t stream) {
    const bool shared = p.sharing > 1;
    launch_clusters(shared ? multiply_shared_pixels<Tile> : multiply_pixels<Tile>, static_cast<unsigned>(p.sharing),
                    static_cast<unsigned>(p.shares.workers * p.sharing), Tile::threads,
                    shared ? Tile::lone_bytes : Tile::shared_bytes, stream, p);
  };
  return {prepare, launch};
}

} // namespace polyconv::cuda::wgmma
