// shared.cuh - the blocks of a cluster share the depth of a tile of the gradient of weights. Each sums its part of the
// blocks of pixels and lays the sums into its shared memory, where the ring was; then each reads a part of the tile
// from all of them, adds in the order of depth, and stores it: no workspace, and no second launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/cluster.cuh"
#include "weights/weights.cuh"

namespace polyconv::cuda::wgmma {

// The tile of this block's cluster, and the blocks [first, last) of its depth that are this block's. Clusters have
// 2^bits blocks, so nothing is divided.
struct ClusterPart {
  int32_t bits, tile, part, first, last;

  __device__ explicit ClusterPart(const WeightsProduct &p) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    bits = __ffs(p.sharing) - 1, tile = block >> bits, part = block - (tile << bits);
    first = (p.shares.blocks * part) >> bits, last = (p.shares.blocks * (part + 1)) >> bits;
  }
};

// A tile of fewer blocks of pixels than the cluster has blocks leaves some of these without any.
template <class Tile>
__device__ inline void clear(WeightsSums<Tile> &sums) {
#pragma unroll
  for (auto &product : sums)
#pragma unroll
    for (float &sum : product) sum = 0;
}

// The sums of a tile in each block's shared memory.
template <class Tile>
class Exchange {
  static constexpr int kConsumers = 128 * Tile::groups;
  static_assert(Tile::piece * 4 <= Tile::stages * Tile::stage_bytes, "lies where the ring does");

 public:
  __device__ explicit Exchange(unsigned char *shared) : sums_(reinterpret_cast<float *>(shared)) {}

  // By all consumers.
  __device__ void write(const WeightsSums<Tile> &sums, int row_group, int chunk_group) const {
    ptx::meet(1, kConsumers); // no warpgroup still multiplies out of the ring
    store_piece<Tile>(sums_, sums, row_group, chunk_group);
  }

  // By all consumers, next: adds the blocks' sums, and stores this block's part of the tile. Nobody goes before all
  // have read its sums.
  __device__ void leave(const WeightsProduct &p, const ClusterPart &mine) const {
    ptx::cluster_arrive_released(), ptx::cluster_wait();
    constexpr int kAll = Tile::piece / 4;
    const int32_t each = kAll >> mine.bits, end = each * (mine.part + 1);
#pragma unroll 2
    for (int32_t quad = each * mine.part + static_cast<int32_t>(threadIdx.x); quad < end; quad += kConsumers) {
      const Weight to(p, shape_of<Tile>(), mine.tile, quad);
      if (!to.exists(p)) continue;
      store_quad_of<typename Tile::T>(p, to, add(quad, p.sharing));
    }
    ptx::cluster_arrive(),
        ptx::cluster_wait(); // what was read is in registers: to release stores would take a microsecond
  }

 private:
  // All are asked at once, for another block's answer takes long.
  __device__ float4 add(int32_t quad, int32_t sharing) const {
    const uint32_t at = ptx::shared_address(sums_ + quad * 4);
    float4 v[kMostSharing], sum = {};
#pragma unroll
    for (int32_t from = 0; from < kMostSharing; ++from)
      if (from < sharing) v[from] = ptx::load_in_cluster(ptx::address_in_cluster(at, from));
#pragma unroll
    for (int32_t from = 0; from < kMostSharing; ++from)
      if (from < sharing) sum.x += v[from].x, sum.y += v[from].y, sum.z += v[from].z, sum.w += v[from].w;
    return sum;
  }

  float *const sums_;
};

} // namespace polyconv::cuda::wgmma
