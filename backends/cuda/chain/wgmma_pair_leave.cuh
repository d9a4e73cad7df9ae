// wgmma_pair_leave.cuh - the end of a tile of wgmma_pair.cuh: its sums, with bias, residual and bounds, into memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma_pair_tile.cuh"

namespace polyconv::cuda::piped {

__device__ inline float2 read_pair(uint32_t at) {
  return make_float2(__uint_as_float(mobile::read_4(at)), __uint_as_float(mobile::read_4(at + 4)));
}

// Two sums of neighbouring columns with their bias.
__device__ inline float2 with_bias(const float *sums, uint32_t bias) {
  const float2 more = read_pair(bias);
  return make_float2(sums[0] + more.x, sums[1] + more.y);
}

template <class Tile, int group>
__device__ inline void store(const Pair &p, const Tile &tile, const Sums<Tile> &sums, const Corner &at) {
  using T = typename Tile::T;
  constexpr Shape s = Tile::shape;
  const Mobile &m = p.m;
  const Bounds<T> bounds(m.projected);
  const int lane = mobile::lane_of(), warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int part = 0; part < s.parts; ++part)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int which = group * s.parts + part, slice = s.strips == 2 ? 0 : which * s.columns;
      const int eight = (s.strips == 2 ? which * 8 : 0) + warp * 2 + h; // of rows
      const int row = eight / s.strips, column = lane / 4;
      const int y = at.y + row, x = at.x + eight % s.strips * kStrip + column;
      const bool there = column < kStrip && row < s.tile() && at.image < m.batch && y < m.out[0] && x < m.out[1];
      const int channel = slice + lane % 2 * 8 + lane % 4 / 2 * 4, left = there ? m.results - channel : 0;
      T *const to = mobile::pixel_at(static_cast<T *>(m.result), m.out_at, at.image, y, x) + channel;
      const T *const residual =
          mobile::pixel_at(static_cast<const T *>(m.residual), m.residual_at, at.image, y, x) + channel;
      const uint32_t bias = tile.result_bias(p) + (slice + lane % 4 * 2) * 4;
#pragma unroll
      for (int j = 0; j < s.columns / 16; ++j) {
        __syncwarp();
        mobile::store_sixteen<T>(m, with_bias(sums[part] + j * 8 + h * 2, bias + j * 64),
                                 with_bias(sums[part] + j * 8 + 4 + h * 2, bias + j * 64 + 32), to + j * 16,
                                 residual + j * 16, left - j * 16, bounds);
      }
    }
}

// Likewise without a residual, in vectors: all rows of 16 columns at a time, each on its own, so that they overlap.
template <class Tile, int group>
__device__ inline void store_plainly(const Pair &p, const Tile &tile, const Sums<Tile> &sums, const Corner &at) {
  using T = typename Tile::T;
  constexpr Shape s = Tile::shape;
  constexpr int kRowParts = s.strips == 2 ? s.parts : 1, kColumnParts = s.strips == 2 ? 1 : s.parts;
  const Mobile &m = p.m;
  const Bounds<T> bounds(m.projected);
  const int lane = mobile::lane_of(), warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int slice = s.strips == 2 ? 0 : group * s.parts * s.columns;
  const int channel = slice + lane % 2 * 8 + lane % 4 / 2 * 4, left = m.results - channel;
  T *const to = mobile::pixel_at(static_cast<T *>(m.result), m.out_at, at.image, at.y, at.x) + channel;
  int32_t offset[2 * kRowParts];
  uint32_t there = 0; // a bit for each of them
#pragma unroll
  for (int i = 0; i < 2 * kRowParts; ++i) {
    const int eight = (s.strips == 2 ? (group * s.parts + i / 2) * 8 : 0) + warp * 2 + i % 2; // of rows
    const int column = lane / 4, y = eight / s.strips, x = eight % s.strips * kStrip + column;
    offset[i] = y * m.out_at.row + x * m.out_at.pixel;
    if (column < kStrip && y < s.tile() && at.image < m.batch && at.y + y < m.out[0] && at.x + x < m.out[1])
      there |= 1u << i;
  }
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int j = 0; j < kColumnParts * s.columns / 16; ++j) {
    const uint32_t bias = tile.result_bias(p) + (slice + j * 16 + lane % 4 * 2) * 4;
    const float2 low = read_pair(bias), high = read_pair(bias + 32);
#pragma unroll
    for (int i = 0; i < 2 * kRowParts; ++i) {
      const int part = s.strips == 2 ? i / 2 : j / (s.columns / 16), first = j % (s.columns / 16) * 8 + i % 2 * 2;
      const float *const v = sums[part] + first;
      const uint32_t a = bounds.apply(pair_of(v[0] + low.x, v[1] + low.y, T()));
      const uint32_t b = bounds.apply(pair_of(v[4] + high.x, v[5] + high.y, T()));
      const uint32_t other = __shfl_xor_sync(~0u, odd ? a : b, 1); // neighbours trade: each has four in a row
      if ((there >> i & 1) != 0 && left > j * 16)
        *reinterpret_cast<uint2 *>(to + offset[i] + j * 16) = odd ? make_uint2(other, b) : make_uint2(a, other);
    }
  }
}

} // namespace polyconv::cuda::piped
