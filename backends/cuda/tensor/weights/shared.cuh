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
    if (p.group_rows == 0 && p.vector > 1 && p.result_type != POLYCONV_F32) {
      if (p.sharing == 2) add_vectors<2>(p, mine);
      if (p.sharing == 4) add_vectors<4>(p, mine);
      if (p.sharing == kMostSharing) add_vectors<kMostSharing>(p, mine);
    } else {
      add_fours(p, mine);
    }
    ptx::cluster_arrive(),
        ptx::cluster_wait(); // what was read is in registers: to release stores would take a microsecond
  }

 private:
  // A quad at a time: any weights, groups too. What is read is stored: what nobody waits for might come from a block
  // that is gone.
  __device__ void add_fours(const WeightsProduct &p, const ClusterPart &mine) const {
    constexpr int kAll = Tile::piece / 4;
    const int32_t each = kAll >> mine.bits, end = each * (mine.part + 1);
#pragma unroll 1
    for (int32_t quad = each * mine.part + static_cast<int32_t>(threadIdx.x); quad < end; quad += kConsumers) {
      const Weight to(p, shape_of<Tile>(), mine.tile, quad);
      if (!to.exists(p)) continue;
      const uint32_t at = ptx::shared_address(sums_ + quad * 4);
      float4 v[kMostSharing], sum = {};
#pragma unroll
      for (int32_t from = 0; from < kMostSharing; ++from)
        if (from < p.sharing) v[from] = ptx::load_in_cluster(ptx::address_in_cluster(at, from));
#pragma unroll
      for (int32_t from = 0; from < kMostSharing; ++from)
        if (from < p.sharing) sum.x += v[from].x, sum.y += v[from].y, sum.z += v[from].z, sum.w += v[from].w;
      store_quad_of<typename Tile::T>(p, to, sum);
    }
  }

  // Likewise where four channels are a vector: 16 reads of a thread are under way at once. (To find where a quad
  // belongs took 750 clocks, one warp a scheduler; eights instead of fours, two words of 16 bytes a lane, take longer
  // to come.)
  template <int Sharing>
  __device__ void add_vectors(const WeightsProduct &p, const ClusterPart &mine) const {
    using T = typename Tile::T;
    constexpr int kTogether = 16 / Sharing, kAcross = Tile::chunks * 8; // squares side by side
    constexpr int32_t kEach = Tile::piece / 4 / Sharing;
    const int32_t column = p.by_row_tiles(mine.tile), top = (mine.tile - column * p.row_tiles) * Tile::rows;
    const auto channels = static_cast<int32_t>(p.weights.size[1]);
#pragma unroll 1
    for (auto first = static_cast<int32_t>(threadIdx.x); first < kEach; first += kTogether * kConsumers) {
      float4 v[kTogether][Sharing];
      T *to[kTogether] = {};
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int32_t quad = kEach * mine.part + first + i * kConsumers, square = quad / Squares::kQuads;
        const int32_t row = top + square / kAcross * Squares::kSide + quad % Squares::kQuads / 2;
        const int32_t across = square % kAcross, chunk = column * Tile::chunks + across / 8, tap = tap_of(p, chunk);
        const int32_t channel = (chunk - tap * p.tap_chunks) * 64 + across % 8 * 8 + quad % 2 * 4;
        if (first + i * kConsumers >= kEach || row >= p.rows || chunk >= p.chunks || channel >= channels) continue;
        to[i] = static_cast<T *>(p.result) + row * p.weights.stride[0] + channel;
        to[i] += p.chunks == p.tap_chunks ? p.weights.offset : offset_of(p.weights, tap);
        const uint32_t at = ptx::shared_address(sums_ + quad * 4);
#pragma unroll
        for (int from = 0; from < Sharing; ++from) v[i][from] = ptx::load_in_cluster(ptx::address_in_cluster(at, from));
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (to[i] == nullptr) continue;
        float4 sum = {};
#pragma unroll
        for (const float4 &u : v[i]) sum.x += u.x, sum.y += u.y, sum.z += u.z, sum.w += u.w;
        store_four(to[i], sum);
      }
    }
  }

  float *const sums_;
};

} // namespace polyconv::cuda::wgmma
