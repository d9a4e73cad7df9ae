// wgmma_leave.cuh - the end of a tile of wgmma.cuh: its sums, with bias, residual and bounds, into memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pair/wgmma_tile.cuh"

namespace polyconv::cuda::piped {

__device__ inline float2 read_pair(uint32_t at) {
  return make_float2(__uint_as_float(ptx::load_settled(at)), __uint_as_float(ptx::load_settled(at + 4)));
}

// The thread of a warpgroup, anew for each tile: what follows from it would else take registers from tile to tile.
__device__ inline int thread_of_group() {
  int thread = static_cast<int>(threadIdx.x) % 128;
  asm volatile("" : "+r"(thread));
  return thread;
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
  const int thread = thread_of_group(), lane = thread % 32, warp = thread / 32;
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

// Where the TMA left the residual of a lane's first pixel, channels 0 and 1: of a pixel's 64 bytes, the pieces of 16
// lie as bits 7 and 8 of its place say.
__device__ inline uint32_t residual_at(uint32_t pixel) {
  return (pixel ^ (pixel >> 3 & 0x30)) + mobile::lane_of() % 4 * 4;
}
template <class T>
__device__ inline void add_residual(float2 &sums, float scale, uint32_t at) {
  const float2 more = mobile::floats<T>(ptx::load_settled(at));
  sums.x += scale * more.x, sums.y += scale * more.y;
}

// Likewise in vectors: all rows of 16 columns at a time, each on its own, so that they overlap. A residual is in shared
// memory.
template <class Tile, int group, bool adds>
__device__ inline void store_vectors(const Pair &p, const Tile &tile, const Sums<Tile> &sums, const Corner &at) {
  using T = typename Tile::T;
  constexpr Shape s = Tile::shape;
  constexpr bool kStrips = s.strips == 2;
  constexpr int kRowParts = kStrips ? s.parts : 1, kColumnParts = kStrips ? 1 : s.parts, kRows = 2 * kRowParts;
  constexpr int kSlice = kStrips ? 0 : group * s.parts * s.columns;
  const auto down = [](int i) { return kStrips ? i / 2 * 4 : i; }; // from the lane's first result to others
  const auto across = [](int i) { return kStrips ? i % 2 * kStrip : 0; };
  const Mobile &m = p.m;
  const Bounds<T> bounds(m.projected);
  const int thread = thread_of_group(), lane = thread % 32, warp = thread / 32, x = lane / 4;
  const int y = kStrips ? group * s.parts * 4 + warp : warp * 2;
  const int channel = kSlice + lane % 2 * 8 + lane % 4 / 2 * 4, left = m.results - channel;
  T *const to = mobile::pixel_at(static_cast<T *>(m.result), m.out_at, at.image, at.y + y, at.x + x) + channel;
  int32_t offset[kRows]; // here: stores whose addresses take arithmetic become branches, and warps wait at each
  uint32_t there = 0;    // a bit for each of them
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    offset[i] = down(i) * m.out_at.row + across(i) * m.out_at.pixel;
    if (x < kStrip && y + down(i) < s.tile() && at.image < m.batch && at.y + y + down(i) < m.out[0] &&
        at.x + x + across(i) < m.out[1])
      there |= 1u << i;
  }
  const bool odd = lane % 2 != 0;
  uint32_t residual[2]; // of rows 0 and 1; others, and other boxes, lie whole patterns of 512 bytes away
#pragma unroll
  for (int i = 0; i < 2; ++i)
    residual[i] = residual_at(tile.residual + (y * s.tile() + min(x, kStrip - 1) + i * kStrip) * kResidualBytes);
#pragma unroll
  for (int j = 0; j < kColumnParts * s.columns / 16; ++j) {
    const uint32_t bias = tile.result_bias(p) + (kSlice + j * 16 + lane % 4 * 2) * 4;
    const float2 low = read_pair(bias), high = read_pair(bias + 32);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int part = kStrips ? i / 2 : j / (s.columns / 16), first = j % (s.columns / 16) * 8 + i % 2 * 2;
      const float *const v = sums[part] + first;
      float2 one = make_float2(v[0] + low.x, v[1] + low.y), two = make_float2(v[4] + high.x, v[5] + high.y);
      if constexpr (adds) {
        const int first_piece = (kSlice + j * 16) % 32 / 8;
        const uint32_t from = (kSlice + j * 16) / 32 * s.residual_box_bytes() + i / 2 * 4 * s.tile() * kResidualBytes;
        add_residual<T>(one, m.residual_scale, (residual[i % 2] ^ first_piece << 4) + from);
        add_residual<T>(two, m.residual_scale, (residual[i % 2] ^ (first_piece + 1) << 4) + from);
      }
      const uint32_t a = bounds.apply(pair_of(one.x, one.y, T())), b = bounds.apply(pair_of(two.x, two.y, T()));
      const uint32_t other = __shfl_xor_sync(~0u, odd ? a : b, 1); // neighbours trade: each has four in a row
      if ((there >> i & 1) != 0 && left > j * 16)
        *reinterpret_cast<uint2 *>(to + offset[i] + j * 16) = odd ? make_uint2(other, b) : make_uint2(a, other);
    }
  }
}

} // namespace polyconv::cuda::piped
