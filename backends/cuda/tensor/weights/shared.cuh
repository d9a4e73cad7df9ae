// shared.cuh - the blocks of a cluster share the depth of a tile of the gradient of weights, or of a part of it. Each
// sums its blocks of pixels, and sends every other the rows of its sums that are that one's to add, to where its ring
// was; each then adds what has come, in the order of depth, and stores it: as weights, where the cluster has all of the
// tile's depth, else as rows of the cluster's piece.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/cluster.cuh"
#include "weights/weights.cuh"

namespace polyconv::cuda::wgmma {

// The tile of this block's cluster, and the blocks [first, last) of its depth that are this block's.
struct ClusterPart {
  int32_t worker, part, tile, first, last;

  __device__ explicit ClusterPart(const WeightsProduct &p)
      : worker(static_cast<int32_t>(blockIdx.x) / p.sharing),
        part(static_cast<int32_t>(blockIdx.x) - worker * p.sharing) {
    const int32_t begin = p.shares.begin(worker), blocks = p.shares.begin(worker + 1) - begin;
    tile = begin / p.shares.blocks;
    first = begin - tile * p.shares.blocks;
    last = first + blocks * (part + 1) / p.sharing, first += blocks * part / p.sharing;
  }
};

// Where there are fewer blocks of pixels than the cluster has blocks, some of these are without any.
template <class Tile>
__device__ inline void clear(WeightsSums<Tile> &sums) {
#pragma unroll
  for (auto &product : sums)
#pragma unroll
    for (float &sum : product) sum = 0;
}

// What a block of a cluster of `sharing` adds: some rows of the tile, from every block, row by row.
template <class Tile>
class Exchange {
  static constexpr int kQuads = 16 * Tile::chunks;       // of a row, fours of sums
  static constexpr int kRowStep = 64 * Tile::chunks + 8; // elements: eight more, so that rows meet in no bank
  static constexpr int kConsumers = 128 * Tile::groups;
  static_assert(Tile::rows * kRowStep * 4 <= Tile::stages * Tile::stage_bytes, "lies where the ring does");
  static_assert(Tile::rows % (8 * kMostSharing) == 0, "the eight rows that a warp has at once are one block's");

 public:
  __device__ Exchange(unsigned char *shared, int32_t sharing)
      : sums_(reinterpret_cast<float *>(shared)), sharing_(sharing), rows_(Tile::rows / sharing) {}

  // By all consumers, of whom none multiplies any longer. `part`: this block's place in the cluster.
  __device__ void send(const WeightsSums<Tile> &sums, int32_t part, int row_group, int chunk_group) const {
    ptx::cluster_arrive(), ptx::cluster_wait(); // no block still multiplies out of its ring
    const auto thread = static_cast<int32_t>(threadIdx.x % 128);
    const uint32_t column = ptx::shared_address(sums_ + chunk_group * Tile::columns + thread % 4 * 2);
#pragma unroll
    for (int half = 0; half < 2 * Tile::products; ++half) { // upper rows of a product, then those 8 below
      const int32_t row =
          (row_group * Tile::products + half / 2) * 64 + thread / 32 * 16 + half % 2 * 8 + thread % 32 / 4;
      const int32_t owner = row / rows_, line = part * rows_ + row - owner * rows_;
      const uint32_t to = ptx::address_in_cluster(column + static_cast<uint32_t>(line * kRowStep) * 4, owner);
#pragma unroll
      for (int i = 0; i < Tile::columns / 8; ++i) {
        const float *const pair = &sums[half / 2][i * 4 + half % 2 * 2];
        ptx::store_in_cluster(to + static_cast<uint32_t>(i) * 32, pair[0], pair[1]);
      }
    }
    ptx::cluster_arrive_released(), ptx::cluster_wait(); // all has come
  }

  // By all consumers, next: adds this block's rows of the tile and stores them.
  __device__ void leave(const WeightsProduct &p, const ClusterPart &mine) const {
    const bool whole = p.whole && p.shares.all_whole();
    auto *const piece = reinterpret_cast<float4 *>(p.pieces + int64_t{mine.worker} * Tile::piece);
#pragma unroll 2
    for (auto i = static_cast<int32_t>(threadIdx.x); i < rows_ * kQuads; i += kConsumers) {
      const float4 sum = add(i);
      const int32_t quad = mine.part * rows_ * kQuads + i;
      if (!whole)
        piece[quad] = sum;
      else if (p.result_type == POLYCONV_F32)
        store<float>(p, mine.tile, quad, sum);
      else
        store<typename Tile::T>(p, mine.tile, quad, sum);
    }
  }

 private:
  __device__ float4 add(int32_t i) const {
    const float *from = sums_ + i / kQuads * kRowStep + i % kQuads * 4;
    float4 sum = {};
    for (int32_t block = 0; block < sharing_; ++block, from += rows_ * kRowStep) {
      const float4 v = *reinterpret_cast<const float4 *>(from);
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    return sum;
  }

  // Four neighbouring channels of a weight, those of them that exist.
  template <class Out>
  __device__ static void store(const WeightsProduct &p, int32_t tile, int32_t quad, const float4 &sum) {
    const int32_t column = tile / p.row_tiles, within = quad % kQuads, chunk = column * Tile::chunks + within / 16;
    const int32_t row = (tile - column * p.row_tiles) * Tile::rows + quad / kQuads, tap = chunk / p.tap_chunks;
    const int32_t channel = (chunk - tap * p.tap_chunks) * 64 + within % 16 * 4;
    const auto channels = static_cast<int32_t>(p.weights.size[1]);
    if (chunk >= p.chunks || row >= p.rows || channel >= channels) return;
    Out *const to = weight_at<Out>(p, row, channel, tap);
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
  const int32_t sharing_, rows_;
};

} // namespace polyconv::cuda::wgmma
