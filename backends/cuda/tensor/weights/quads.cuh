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

// Where the sums of a quad of a tile belong: four neighbouring channels of a row's own group, if these exist.
struct Weight {
  int32_t row, channel, tap;
  bool exists;

  __device__ Weight(const WeightsProduct &p, const TileShape &shape, int32_t tile, int32_t quad) {
    const int32_t column = p.by_row_tiles(tile), within = shape.squares().column_of(quad);
    const int32_t first = (tile - column * p.row_tiles) * shape.rows;
    row = first + shape.squares().row_of(quad);
    const int32_t chunk = column * shape.chunks + within / 64;
    tap = tap_of(p, chunk);
    channel = (chunk - tap * p.tap_chunks) * 64 + within % 64 - own_column(p, first, row);
    exists = chunk < p.chunks && row < p.rows && channel > -4 && channel < static_cast<int32_t>(p.weights.size[1]);
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

// A quad of a piece, which another block may have left in this very launch: as the second cache has it.
__device__ inline float4 fresh(const PiecesOfTile &of, int32_t piece, int32_t quad) {
  return __ldcg(piece == 0 ? of.first + quad : of.second + (piece - 1) * of.step + quad);
}

// Adds all tiles' pieces and stores the gradient, by `blocks` blocks of `warps` warps, of which this is one. A lane has
// Each quads under way, of so many pieces that 16 reads are; or `ways` lanes of a warp share the pieces of a quad, in
// order, and add their sums. What is added in which order depends on `ways` alone, not on who adds.
template <class Half, int Each>
__device__ inline void add_quads(const WeightsProduct &p, const TileShape &shape, int32_t warps, int32_t block,
                                 int32_t blocks) {
  constexpr int kPieces = 16 / Each; // under way of a quad
  const int32_t ways = Each == 1 ? p.ways : 1, step = 32 / ways;
  const auto warp = static_cast<int32_t>(threadIdx.x / 32), lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t mine = lane % step, way = lane / step, units_of_tile = shape.quads() / (step * Each);
  const int32_t tiles = p.row_tiles * ((p.chunks + shape.chunks - 1) / shape.chunks);
  for (int32_t unit = warp * blocks + block; unit < tiles * units_of_tile; unit += warps * blocks) {
    const int32_t tile = unit / units_of_tile, first = (unit - tile * units_of_tile) * step * Each + mine;
    const PiecesOfTile of = pieces_of_tile(p, shape, tile, first);
    if (p.whole && of.count == 1) continue; // has left already
    float4 sums[Each] = {};
    bool there[Each];
#pragma unroll
    for (int j = 0; j < Each; ++j) there[j] = Weight(p, shape, tile, first + j * step).exists;
    const int32_t end = of.count * (way + 1) / ways;
    for (int32_t piece = of.count * way / ways; piece < end; piece += kPieces) {
      float4 v[Each][kPieces];
#pragma unroll
      for (int i = 0; i < kPieces; ++i)
#pragma unroll
        for (int j = 0; j < Each; ++j)
          v[j][i] = there[j] && piece + i < end ? fresh(of, piece + i, j * step) : float4{};
#pragma unroll
      for (int j = 0; j < Each; ++j)
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
          sums[j].x += v[j][i].x, sums[j].y += v[j][i].y, sums[j].z += v[j][i].z, sums[j].w += v[j][i].w;
    }
    if constexpr (Each == 1) { // without braces nvcc 13.0 drops the unrolled loop behind it where it is discarded
      for (int32_t other = step; other < 32; other *= 2) {
        sums[0].x += __shfl_xor_sync(~0u, sums[0].x, other), sums[0].y += __shfl_xor_sync(~0u, sums[0].y, other);
        sums[0].z += __shfl_xor_sync(~0u, sums[0].z, other), sums[0].w += __shfl_xor_sync(~0u, sums[0].w, other);
      }
    }
#pragma unroll
    for (int j = 0; j < Each; ++j)
      if (there[j] && way == 0) store_quad_of<Half>(p, Weight(p, shape, tile, first + j * step), sums[j]);
  }
}
template <class Half>
__device__ inline void add_quads(const WeightsProduct &p, const TileShape &shape, int32_t warps, int32_t block,
                                 int32_t blocks) {
  if (p.each == 1) return add_quads<Half, 1>(p, shape, warps, block, blocks);
  if (p.each == 2) return add_quads<Half, 2>(p, shape, warps, block, blocks);
  return add_quads<Half, 4>(p, shape, warps, block, blocks);
}

} // namespace polyconv::cuda::wgmma
