// pieces.cuh - products of few tiles and much depth, as gradients of weights are: a fixed number of workers share the
// blocks of depth of all tiles evenly, one tile after the other, so that most work on one or two tiles each. What a
// worker sums of a tile is a piece in the workspace, and a second kernel adds the pieces of each tile in the order of
// depth. How the work is shared is a function of problem and config, not of the device: so are the bits.
// ("Stream-K", Osama et al. 2023, has the idea; theirs adds in the product's own kernel.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/divider.cuh"
#include "common/numbers.hpp"
#include "common/ptx/grid.cuh"

namespace polyconv::cuda {

// Tiles in groups of `group`, each the work of `workers_of_group` workers whose shares differ by one block at most. All
// groups are cut alike.
struct Shares {
  int32_t tiles = 0, blocks = 0; // blocks of depth of a tile
  int32_t workers = 1, group = 1, workers_of_group = 1;
  int32_t most = 0;          // pieces of a worker
  int32_t unit = 1;          // blocks that nobody parts: one, or all of a tile
  int32_t each = 0, odd = 0; // units of a worker; the first `odd` of a group have one more
  Divider by_blocks, by_span, by_workers, by_each, by_each_more; // a group's blocks, its workers, a worker's units

  int32_t longest() const { return (each + (odd > 0 ? 1 : 0)) * unit; } // blocks of a worker
  // Whether every tile is one worker's.
  bool all_whole() const { return unit == blocks || group % workers_of_group == 0; }
#ifdef __CUDACC__
  __device__ int32_t begin(int32_t worker) const {
    const int32_t which = by_workers(worker), within = worker - which * workers_of_group;
    return which * group * blocks + (within * each + min(within, odd)) * unit;
  }
  // The tile that a worker begins with.
  __device__ int32_t first_tile(int32_t worker) const {
    return by_blocks(begin(worker));
  }
  // The worker that sums block `block` of all.
  __device__ int32_t worker_of(int32_t block) const {
    const int32_t which = by_span(block), of_group = block - which * group * blocks, longer = odd * (each + 1);
    const int32_t within = unit == 1 ? of_group : by_blocks(of_group);
    return which * workers_of_group + (within < longer ? by_each_more(within) : odd + by_each(within - longer));
  }
  // Where a worker's piece of a tile lies.
  __device__ int64_t piece(int32_t worker, int32_t tile) const {
    return int64_t{worker} * most + tile - first_tile(worker);
  }
#endif
};

// tiles * blocks: below 2^31. `groups` divides tiles. At most `workers`, each with a unit or more.
inline Shares make_shares(int64_t tiles, int64_t blocks, int64_t workers, int64_t groups = 1, int64_t unit = 1) {
  const int64_t group = tiles / groups, span = group * blocks, units = span / unit,
                each = std::max<int64_t>(1, std::min(workers / groups, units));
  const int64_t longest = (units + each - 1) / each * unit;
  Shares s;
  s.unit = small(unit);
  s.tiles = small(tiles), s.blocks = small(blocks);
  s.workers = small(each * groups), s.group = small(group), s.workers_of_group = small(each);
  s.most = small(span == 0 ? 0 : std::min((longest + blocks - 1 - unit) / blocks + 1, tiles));
  s.each = small(units / each), s.odd = small(units % each);
  s.by_blocks = Divider::make(s.blocks), s.by_span = Divider::make(small(span)),
  s.by_workers = Divider::make(small(each));
  s.by_each = Divider::make(s.each), s.by_each_more = Divider::make(s.each + 1);
  return s;
}

#ifdef __CUDACC__
// Body(tile, first, last, piece) for the blocks of depth of every tile in a worker's share.
template <class Body>
__device__ inline void for_pieces(const Shares &s, int worker, const Body &body) {
  const int32_t begin = s.begin(worker), end = s.begin(worker + 1), first_tile = s.by_blocks(begin);
#pragma unroll 1
  for (int32_t tile = first_tile; begin < end && tile * s.blocks < end; ++tile) {
    const int32_t at = tile * s.blocks;
    body(tile, max(begin - at, 0), min(end - at, s.blocks), int64_t{worker} * s.most + (tile - first_tile));
  }
}

constexpr int kMostAddingWays = 32;

// The pieces of a tile, a quad of each: its first worker's, and those of the others, who all began with this tile.
struct PiecesOfTile {
  const float4 *first, *second;
  int64_t step; // from the second on
  int32_t count;

  PiecesOfTile() = default;
  // `within`: of a piece's quads, the one to count from.
  __device__ PiecesOfTile(const Shares &s, const float4 *pieces, int32_t quads, int32_t tile, int32_t within = 0) {
    const int32_t worker = s.worker_of(tile * s.blocks);
    count = s.worker_of((tile + 1) * s.blocks - 1) - worker + 1;
    step = int64_t{s.most} * quads;
    pieces += within;
    first = pieces + s.piece(worker, tile) * quads, second = pieces + (worker + 1) * step;
  }
  __device__ float4 operator()(int32_t piece, int32_t quad) const {
    return piece == 0 ? first[quad] : second[(piece - 1) * step + quad];
  }
};

// Warps add pieces of `quads` times four values: `ways` warps share the pieces of 32 quads, in order, and the first of
// them adds their sums, in order. leave.store(tile, i, sum) is what becomes of quad i of a tile.
template <class Leave>
__global__ void __launch_bounds__(32 * kMostAddingWays, 1)
    add_pieces(const Shares s, const float4 *pieces, int32_t quads, int32_t ways, const __grid_constant__ Leave leave) {
  ptx::await_previous();
  __shared__ float4 sums[32 * kMostAddingWays];
  const int32_t sets = static_cast<int32_t>(blockDim.x) / 32 / ways, per_tile = (quads / 32 + sets - 1) / sets;
  const int32_t tile = static_cast<int32_t>(blockIdx.x) / per_tile, warp = static_cast<int>(threadIdx.x) / 32;
  const int32_t set = static_cast<int32_t>(blockIdx.x) % per_tile * sets + warp / ways;
  const int32_t i = set * 32 + static_cast<int>(threadIdx.x) % 32;
  const PiecesOfTile of(s, pieces, quads, tile);
  const int32_t way = warp % ways, end = of.count * (way + 1) / ways;
  float4 sum = {};
#pragma unroll 8
  for (int32_t piece = of.count * way / ways; piece < end; ++piece) {
    const float4 v = i < quads ? of(piece, i) : float4{};
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (way > 0 || i >= quads) return;
  for (int other = 1; other < ways; ++other) {
    const float4 v = sums[threadIdx.x + 32 * other];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  leave.store(tile, i, sum);
}

// Launches it; `quads`: a multiple of 32.
template <class Leave>
void launch_add_pieces(const Shares &s, const void *pieces, int32_t quads, const Leave &leave, cudaStream_t stream) {
  constexpr int32_t kWarps = 8; // of a block, unless more share the pieces of a quad
  // Warps enough to hide loads, of which each has four pieces or more.
  const int64_t most = ceil_div(s.workers, std::max(s.tiles, 1)) / 4;
  int32_t ways = 1;
  while (ways < kMostAddingWays && 2 * ways <= most && int64_t{s.tiles} * quads * ways < 128 << 10) ways *= 2;
  const int32_t sets = std::max(1, kWarps / ways), per_tile = (quads / 32 + sets - 1) / sets;
  launch_waiting(add_pieces<Leave>, static_cast<unsigned>(s.tiles) * static_cast<unsigned>(per_tile), 32 * ways * sets,
                 0, stream, s, static_cast<const float4 *>(pieces), quads, ways, leave);
}
#endif

} // namespace polyconv::cuda
