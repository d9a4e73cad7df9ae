// quads.cuh - fours of a tile's sums on their way into the gradient of weights: which weights they are, how they are
// stored, and how the pieces of a tile are added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weights/stores.cuh"
#include "weights/weights.hpp"

namespace polyconv::cuda::wgmma {

// A chunk's tap; without a division where there is one.
__device__ inline int32_t tap_of(const WeightsProduct &p, int32_t chunk) {
  return p.chunks == p.tap_chunks ? 0 : chunk / p.tap_chunks;
}

// Where a row's weight of a tap and a channel goes.
template <class Out>
__device__ inline Out *weight_at(const WeightsProduct &p, int32_t row, int32_t channel, int32_t tap) {
  if (p.chunks == p.tap_chunks) return static_cast<Out *>(p.result) + p.weights.at(row, channel, 0, 0, 0);
  const int32_t line = tap / p.taps[2], plane = line / p.taps[1];
  return static_cast<Out *>(p.result) +
         p.weights.at(row, channel, plane, line - plane * p.taps[1], tap - line * p.taps[2]);
}

// Where a tile's columns are the channels of several groups: which of a tap's is the first of a row's own group.
// `first`: the tile's first row.
__device__ inline int32_t own_column(const WeightsProduct &p, int32_t first, int32_t row) {
  if (p.group_rows == 0) return 0;
  return (p.by_group_rows(row) - p.by_group_rows(first)) * p.group_channels;
}

// What a tile is of, where its shape is known: its first row, and its squares.
struct TileShape {
  int32_t rows, chunks;

  __device__ constexpr int32_t quads() const { return rows * chunks * 16; }
  __device__ constexpr Squares squares() const { return {chunks * 64 / Squares::kSide}; }
};

// Where the sums of a quad of a tile belong: four neighbouring channels of a row's own group.
struct Weight {
  int32_t row, chunk, tap, channel;

  __device__ Weight(const WeightsProduct &p, const TileShape &shape, int32_t tile, int32_t quad) {
    const int32_t column = p.by_row_tiles(tile), within = shape.squares().column_of(quad);
    const int32_t first = (tile - column * p.row_tiles) * shape.rows;
    row = first + shape.squares().row_of(quad);
    chunk = column * shape.chunks + within / 64;
    tap = tap_of(p, chunk);
    channel = (chunk - tap * p.tap_chunks) * 64 + within % 64 - own_column(p, first, row);
  }
  // Whether some of them, or of those up to `more` channels on, are there: of a tile of several groups, most are
  // another group's.
  __device__ bool exists(const WeightsProduct &p, int32_t more = 0) const {
    return chunk < p.chunks && row < p.rows && channel + more > -4 && channel < static_cast<int32_t>(p.weights.size[1]);
  }
};

// Those of the four channels that exist.
template <class Out>
__device__ inline void store_quad(const WeightsProduct &p, const Weight &weight, const float4 &sum) {
  const int32_t channel = weight.channel;
  const auto channels = static_cast<int32_t>(p.weights.size[1]);
  Out *const to = weight_at<Out>(p, weight.row, channel, weight.tap);
  const int64_t step = p.weights.stride[1];
  if (p.vector > 1) return store_four(to, sum);
  if (step == 1 && channel >= 0) {
    const bool pairs = reinterpret_cast<uintptr_t>(to) % (2 * sizeof(Out)) == 0;
    store_pair(to, sum.x, sum.y, pairs, channel + 1 < channels);
    if (channel + 2 < channels) store_pair(to + 2, sum.z, sum.w, pairs, channel + 3 < channels);
    return;
  }
  const float values[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (channel + i >= 0 && channel + i < channels) to[i * step] = static_cast<Out>(values[i]);
}
// As f32, or as the Half that the product is of.
template <class Half>
__device__ inline void store_quad_of(const WeightsProduct &p, const Weight &weight, const float4 &sum) {
  if (p.result_type == POLYCONV_F32) return store_quad<float>(p, weight, sum);
  store_quad<Half>(p, weight, sum);
}

// ---------------------------------------------------------------- pieces

// The pieces of a tile, from quad `within` on. Those of a pair of tiles lie side by side.
__device__ inline PiecesOfTile pieces_of_tile(const WeightsProduct &p, const TileShape &shape, int32_t tile,
                                              int32_t within) {
  const auto *const pieces = reinterpret_cast<const float4 *>(p.pieces);
  if (p.pairs == kNoPairs) return {p.shares, pieces, shape.quads(), tile, within};
  const int32_t across = p.by_row_tiles(tile), down = tile - across * p.row_tiles;
  const bool rows = p.pairs == kPairsOfRows;
  const int32_t pair = rows ? (across * p.row_tiles + down) / 2 : across / 2 * p.row_tiles + down;
  return {p.shares, pieces, 2 * shape.quads(), pair, within + (rows ? down : across) % 2 * shape.quads()};
}

// Sums of pieces [from, to) of Each quads that lie 32 apart, in the order of pieces, which other blocks may have left
// in this very launch: as the second cache has them. 16 reads are under way at once.
template <int Each>
__device__ inline void add_pieces_of(float4 (&sums)[Each], const PiecesOfTile &of, int32_t from, int32_t to) {
  constexpr int kTogether = 16 / Each;
  const float4 *at = from == 0 ? of.first : of.second + (from - 1) * of.step;
  const float4 *next = from == 0 ? of.second : at + of.step;
  while (from < to) {
    float4 v[kTogether][Each];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (int j = 0; j < Each; ++j) v[i][j] = from + i < to ? __ldcg(at + j * 32) : float4{};
      at = next, next += of.step;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
#pragma unroll
      for (int j = 0; j < Each; ++j)
        sums[j].x += v[i][j].x, sums[j].y += v[i][j].y, sums[j].z += v[i][j].z, sums[j].w += v[i][j].w;
    from += kTogether;
  }
}

// Adds all tiles' pieces and stores the gradient, by `blocks` blocks of `warps` warps, of which this is one. A lane has
// Each quads of a row, 16 channels apart; or `ways` lanes share the pieces of a quad, in order, and add their sums.
// What is added in which order depends on `ways` alone, not on who adds. meet() waits for the pieces, once a thread: as
// late as can be, for where they are takes as long to find, by code that a run fetches anew, as others to come.
template <class Half, int Each, class Meet>
__device__ inline void add_quads(const WeightsProduct &p, const TileShape &shape, int32_t warps, int32_t block,
                                 int32_t blocks, const Meet &meet) {
  static_assert(32 * Each <= 8 * Squares::kQuads, "squares of one row and chunk");
  const int32_t ways = Each == 1 ? p.ways : 1, step = 32 / ways;
  const auto warp = static_cast<int32_t>(threadIdx.x / 32), lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t mine = lane % step, way = lane / step, units_of_tile = shape.quads() / (step * Each);
  const int32_t tiles = p.row_tiles * ((p.chunks + shape.chunks - 1) / shape.chunks);
  bool met = false;
  for (int32_t unit = warp * blocks + block; unit < tiles * units_of_tile; unit += warps * blocks) {
    const int32_t tile = unit / units_of_tile, first = (unit - tile * units_of_tile) * step * Each + mine;
    const PiecesOfTile of = pieces_of_tile(p, shape, tile, first);
    if (p.whole && of.count == 1) continue; // has left already
    Weight to(p, shape, tile, first);
    float4 sums[Each] = {};
    if (!met) meet(), met = true;
    if (to.exists(p, 16 * (Each - 1))) add_pieces_of(sums, of, of.count * way / ways, of.count * (way + 1) / ways);
    if constexpr (Each == 1) { // without braces nvcc 13.0 drops the unrolled loop behind it where it is discarded
      for (int32_t other = step; other < 32; other *= 2) {
        sums[0].x += __shfl_xor_sync(~0u, sums[0].x, other), sums[0].y += __shfl_xor_sync(~0u, sums[0].y, other);
        sums[0].z += __shfl_xor_sync(~0u, sums[0].z, other), sums[0].w += __shfl_xor_sync(~0u, sums[0].w, other);
      }
    }
    if (way > 0) continue;
#pragma unroll
    for (int j = 0; j < Each; ++j, to.channel += 16)
      if (to.exists(p)) store_quad_of<Half>(p, to, sums[j]);
  }
  if (!met) meet();
}
template <class Half, class Meet>
__device__ inline void add_quads(const WeightsProduct &p, const TileShape &shape, int32_t warps, int32_t block,
                                 int32_t blocks, const Meet &meet) {
  if (p.each == 1) return add_quads<Half, 1>(p, shape, warps, block, blocks, meet);
  if (p.each == 2) return add_quads<Half, 2>(p, shape, warps, block, blocks, meet);
  return add_quads<Half, kMostEach>(p, shape, warps, block, blocks, meet);
}

} // namespace polyconv::cuda::wgmma
