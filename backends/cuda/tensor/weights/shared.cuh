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
      const Weight to(p, mine.tile, quad);
      if (!to.exists) continue; // of a tile of several groups, most are another group's
      const float4 sum = add(quad, p.sharing);
      if (p.result_type == POLYCONV_F32)
        store<float>(p, to, sum);
      else
        store<typename Tile::T>(p, to, sum);
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

  // Where the sums of a quad of the tile belong: four neighbouring channels of a row's own group, if these exist.
  struct Weight {
    int32_t row, channel, tap;
    bool exists;

    __device__ Weight(const WeightsProduct &p, int32_t tile, int32_t quad) {
      const int32_t column = p.by_row_tiles(tile), within = squares_of<Tile>().column_of(quad);
      const int32_t first = (tile - column * p.row_tiles) * Tile::rows;
      row = first + squares_of<Tile>().row_of(quad);
      const int32_t chunk = column * Tile::chunks + within / 64;
      tap = tap_of(p, chunk);
      channel = (chunk - tap * p.tap_chunks) * 64 + within % 64 - own_column(p, first, row);
      exists = chunk < p.chunks && row < p.rows && channel >= 0 && channel < static_cast<int32_t>(p.weights.size[1]);
    }
  };

  // Those of the four channels that exist.
  template <class Out>
  __device__ static void store(const WeightsProduct &p, const Weight &weight, const float4 &sum) {
    const int32_t channel = weight.channel;
    const auto channels = static_cast<int32_t>(p.weights.size[1]);
    Out *const to = weight_at<Out>(p, weight.row, channel, weight.tap);
    const int64_t step = p.weights.stride[1];
    if (p.vector > 1) return store_four(to, sum);
    if (step == 1) {
      const bool pairs = reinterpret_cast<uintptr_t>(to) % (2 * sizeof(Out)) == 0;
      store_pair(to, sum.x, sum.y, pairs, channel + 1 < channels);
      if (channel + 2 < channels) store_pair(to + 2, sum.z, sum.w, pairs, channel + 3 < channels);
      return;
    }
    const float values[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (channel + i < channels) to[i * step] = static_cast<Out>(values[i]);
  }

  float *const sums_;
};

} // namespace polyconv::cuda::wgmma
