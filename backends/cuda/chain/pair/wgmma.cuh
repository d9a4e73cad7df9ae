// wgmma.cuh - a 3 x 3 depthwise layer and the 1 x 1 layer after it, on Hopper. Three kinds of warps pass a tile
// on, a chunk of its channels at a time. One thread has the TMA fetch patches of the input, halo and padding included,
// and the chunk's taps into a ring; a second one has it fetch weights into another ring, a third a tile of the
// residual. Filtering warps, a band of rows each, sum a chunk of patches with FMA and write it, rounded, into the
// second ring, as warpgroup products read their first factor; multiplying warpgroups do those products, keep the sums,
// and store them when all chunks have come. What lies between the layers never leaves the multiprocessor, and nobody
// waits for all.
//
// Floor: the input and the result once, at the rate of a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "pair/wgmma_leave.cuh"

namespace polyconv::cuda::piped {

// ---------------------------------------------------------------- fetching

template <class Tile>
__device__ inline void fetch_inputs(const Pair &p, const Tile &tile) {
  constexpr Shape s = Tile::shape;
  const int rounds = rounds_of(p);
  RingPlace turn{0};
  for (int round = 0; round < rounds; ++round) {
    const Corner at(p.m, s.tile(), static_cast<int>(blockIdx.x + round * gridDim.x));
#pragma unroll 1
    for (int chunk = 0; chunk < p.chunks; ++chunk, turn.advance(1, p.inputs)) {
      ptx::barrier_wait(tile.input_empty(turn), turn.phase ^ 1);
      ptx::barrier_expect(tile.input_full(turn), s.patch_bytes() + s.taps_bytes());
      ptx::load_box(tile.input(turn), &p.input, tile.input_full(turn), chunk * s.chunk(), at.x * s.step - p.m.pad[1],
                    at.y * s.step - p.m.pad[0], min(at.image, p.m.batch - 1));
      ptx::load_box(tile.input(turn) + s.taps_at(), &p.taps, tile.input_full(turn), chunk * s.chunk(), 0);
    }
  }
}

// Blocks of a cluster fetch some of the rows each, for all of them.
template <class Tile>
__device__ inline void fetch_weights(const Pair &p, const Tile &tile) {
  constexpr Shape s = Tile::shape;
  const int rounds = rounds_of(p), rows = s.results() / p.cluster;
  const int first = p.cluster == 1 ? 0 : static_cast<int>(blockIdx.x) % p.cluster * rows;
  const auto all = static_cast<uint16_t>((1 << p.cluster) - 1);
  RingPlace turn{0};
  for (int round = 0; round < rounds; ++round)
#pragma unroll 1
    for (int chunk = 0; chunk < p.chunks; ++chunk, turn.advance(1, p.products)) {
      ptx::barrier_wait(tile.product_empty(turn), turn.phase ^ 1);
      ptx::barrier_expect(tile.product_full(turn), s.weights_bytes());
      const uint32_t to = tile.weights(turn) + first * s.row_bytes();
      if (p.cluster > 1) {
        ptx::load_box_for(to, &p.weights, tile.product_full(turn), chunk * s.chunk(), first, all);
        continue;
      }
      constexpr int kRows = s.box_rows();
#pragma unroll
      for (int row = 0; row < s.results(); row += kRows)
        ptx::load_box(to + row * s.row_bytes(), &p.weights, tile.product_full(turn), chunk * s.chunk(), row);
    }
  // Others of the cluster arrive here at the end: a block must be there until they have.
  if (p.cluster == 1) return;
  for (int i = 0; i < p.products; ++i, turn.advance(1, p.products))
    ptx::barrier_wait(tile.product_empty(turn), turn.phase ^ 1);
}

// A tile's residual as soon as the tile before is stored: it is there long before this one's last chunk.
template <class Tile>
__device__ inline void fetch_residuals(const Pair &p, const Tile &tile) {
  constexpr Shape s = Tile::shape;
  const int rounds = rounds_of(p);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const Corner at(p.m, s.tile(), static_cast<int>(blockIdx.x + round * gridDim.x));
    ptx::barrier_wait(tile.residual_empty(), round % 2 ^ 1);
    ptx::barrier_expect(tile.residual_full(), s.residual_boxes() * s.tile() * s.tile() * kResidualBytes);
#pragma unroll 1
    for (int box = 0; box < s.residual_boxes(); ++box)
      ptx::load_box(tile.residual + box * s.residual_box_bytes(), &p.residual, tile.residual_full(),
                    box * kResidualBytes / 2, at.x, at.y, min(at.image, p.m.batch - 1));
  }
}

// ---------------------------------------------------------------- filtering

// Rows of 7 results of a pair of channels, up to kRows of them. `from`: the pair in the first window's corner; `to`:
// where the first result goes, but for the swizzle.
template <class Tile>
__device__ inline void filter_band(uint32_t from, uint32_t taps, float2 bias, uint32_t to, int rows,
                                   const Bounds<typename Tile::T> &bounds) {
  using T = typename Tile::T;
  constexpr Shape s = Tile::shape;
  constexpr int kRows = s.strips * 2, kWidth = (kStrip - 1) * s.step + 3, kRow = s.row_bytes();
  constexpr int kLast = (kRows - 1) * s.step + 2; // row of the inputs
  float2 w[9];
#pragma unroll
  for (int i = 0; i < 9; ++i) w[i] = mobile::floats<T>(ptx::load_settled(taps + i * kRow));
  float2 sum[3][kStrip];
  uint32_t next[kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) next[j] = ptx::load_settled(from + j * kRow);
#pragma unroll
  for (int row = 0; row <= kLast; ++row) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float2 x = mobile::floats<T>(next[j]);
      if (row < kLast) next[j] = ptx::load_settled(from + ((row + 1) * s.patch() + j) * kRow);
#pragma unroll
      for (int y = 0; y < kRows; ++y)
#pragma unroll
        for (int i = 0; i < kStrip; ++i) {
          const int r = row - y * s.step, c = j - i * s.step;
          if (r < 0 || r > 2 || c < 0 || c > 2) continue;
          float2 &v = sum[y % 3][i];
          const float2 before = r == 0 && c == 0 ? bias : v, k = w[r * 3 + c];
          v.x = fmaf(x.x, k.x, before.x), v.y = fmaf(x.y, k.y, before.y);
        }
    }
#pragma unroll
    for (int y = 0; y < kRows; ++y) {
      if (row - y * s.step != 2) continue;
#pragma unroll
      for (int i = 0; i < kStrip; ++i) {
        const int swizzle = s.strips == 2 ? i >> 1 & 3 : i;
        const float2 v = sum[y % 3][i];
        ptx::store_word((to ^ swizzle << 4) + (y * s.strips * 8 + i) * kRow, bounds.apply(pair_of(v.x, v.y, T())));
      }
      if (y + 1 < kRows && y + 1 >= rows) return;
    }
  }
}

// Row (y * strips + strip) * 8 + x of the products' first factor is result (y, x) of a strip; 7 of 8 are one.
template <class Tile>
__device__ inline void filter(const Pair &p, const Tile &tile, int worker) {
  constexpr Shape s = Tile::shape;
  constexpr int kLanes = s.chunk() / 2;
  const int band = worker % kBands, team = worker / kBands, lane = mobile::lane_of();
  const int strip = lane / kLanes, pair = lane % kLanes;
  const int first = band * s.tile() / kBands, rows = (band + 1) * s.tile() / kBands - first;
  const uint32_t from = (first * s.step * s.patch() + strip * kStrip * s.step) * s.row_bytes() + pair * 4;
  const uint32_t to = (first * s.strips + strip) * 8 * s.row_bytes() + pair * 4;
  const Bounds<typename Tile::T> bounds(p.m.filtered);
  RingPlace input{0}, product{0};
  input.advance(team, p.inputs), product.advance(team, p.products);
  int chunk = team % p.chunks;
  const int all = rounds_of(p) * p.chunks;
#pragma unroll 1
  for (int i = team; i < all; i += s.teams) {
    const uint32_t at = tile.bias + (chunk * s.chunk() + pair * 2) * 4;
    const float2 bias = make_float2(__uint_as_float(ptx::load_settled(at)), __uint_as_float(ptx::load_settled(at + 4)));
    ptx::barrier_wait(tile.input_full(input), input.phase);
    ptx::barrier_wait(tile.product_empty(product), product.phase ^ 1);
    filter_band<Tile>(tile.input(input) + from, tile.input(input) + s.taps_at() + pair * 4, bias,
                      tile.filtered(product) + to, rows, bounds);
    ptx::fence_for_tma(); // as for the TMA, so for products
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(tile.input_empty(input)), ptx::barrier_arrive(tile.product_full(product));
    input.advance(s.teams, p.inputs), product.advance(s.teams, p.products);
    chunk += s.teams;
    while (chunk >= p.chunks) chunk -= p.chunks;
  }
}

// ---------------------------------------------------------------- multiplying

// This warp has read a stage.
template <class Tile>
__device__ inline void release(const Pair &p, const Tile &tile, int stage) {
  const int lane = mobile::lane_of();
  const uint32_t barrier = tile.barrier(3, stage);
  if (p.cluster == 1) {
    if (lane == 0) ptx::barrier_arrive(barrier);
  } else if (lane < p.cluster) {
    ptx::arrive_in_cluster(ptx::address_in_cluster(barrier, lane));
  }
}

template <class Tile, int group>
__device__ inline void multiply_chunks(const Pair &p, const Tile &tile, RingPlace &turn, Sums<Tile> &sums) {
  using T = typename Tile::T;
  constexpr Shape s = Tile::shape;
  constexpr int kRows = s.strips == 2 ? 64 * s.row_bytes() >> 4 : 0; // of a descriptor, to the next part
  constexpr int kColumns = s.strips == 2 ? 0 : s.columns * s.row_bytes() >> 4;
  const auto descriptor = [](uint32_t at) {
    return Tile::shape.strips == 2 ? ptx::narrow_descriptor(at) : ptx::matrix_descriptor(at);
  };
  int before = -1;
#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    if (before >= 0 && !ptx::barrier_over(tile.product_full(turn), turn.phase)) {
      ptx::products_wait<0>();
      release(p, tile, before), before = -1;
    }
    ptx::barrier_wait(tile.product_full(turn), turn.phase);
    const uint64_t a = descriptor(tile.filtered(turn)) + group * s.parts * kRows;
    const uint64_t b = descriptor(tile.weights(turn)) + group * s.parts * kColumns;
    ptx::products_fence();
#pragma unroll
    for (int part = 0; part < s.parts; ++part)
#pragma unroll
      for (int k = 0; k < s.chunk() / 16; ++k)
        ptx::multiply<T, s.columns>(sums[part], a + part * kRows + k * 2, b + part * kColumns + k * 2,
                                    chunk > 0 || k > 0);
    ptx::products_commit();
    ptx::products_wait<1>(); // the stage before is read
    if (before >= 0) release(p, tile, before);
    before = turn.stage;
    turn.advance(1, p.products);
  }
  ptx::products_wait<0>();
  if (before >= 0) release(p, tile, before);
}

template <class Tile, int group>
__device__ inline void multiply(const Pair &p, const Tile &tile) {
  constexpr Shape s = Tile::shape;
  const int rounds = rounds_of(p);
  const bool plain = p.m.residual == nullptr && p.m.vectors_out != 0;
  Sums<Tile> sums;
  RingPlace turn{0};
  for (int round = 0; round < rounds; ++round) {
    const Corner at(p.m, s.tile(), static_cast<int>(blockIdx.x + round * gridDim.x));
    multiply_chunks<Tile, group>(p, tile, turn, sums);
    if (plain) {
      store_vectors<Tile, group, false>(p, tile, sums, at);
    } else if (p.m.vectors_residual) {
      ptx::barrier_wait(tile.residual_full(), round % 2);
      store_vectors<Tile, group, true>(p, tile, sums, at);
      __syncwarp();
      if (mobile::lane_of() == 0) ptx::barrier_arrive(tile.residual_empty());
    } else {
      store<Tile, group>(p, tile, sums, at);
    }
  }
}

// ---------------------------------------------------------------- the kernel

// By all workers. -0 where there is no bias: it changes no sum.
__device__ inline void fill_bias(uint32_t to, const float *from, int count, int padded, int threads) {
  for (int i = static_cast<int>(threadIdx.x); i < padded; i += threads)
    ptx::store_shared(to + i * 4, from != nullptr && i < count ? from[i] : -0.0f);
}

// Warps: those that multiply, those that filter, those that fetch.
template <class T, int which>
__global__ void __launch_bounds__(kShapes[which].threads(), 1) pipe_pair(const __grid_constant__ Pair p) {
  extern __shared__ unsigned char unaligned[];
  using Block = Tile<T, which>;
  constexpr Shape s = Block::shape;
  const Block tile(p, unaligned);
  if (threadIdx.x == 0) tile.init(p);
  if (threadIdx.x == 32) ptx::prefetch(&p.input), ptx::prefetch(&p.taps), ptx::prefetch(&p.weights);
  if (p.cluster > 1) ptx::cluster_arrive(), ptx::cluster_wait();
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp >= s.workers()) {
    ptx::release_registers<kFetchRegisters>();
    if (threadIdx.x % 32 != 0) return;
    if (warp == s.workers()) fetch_inputs(p, tile);
    if (warp == s.workers() + 1) fetch_weights(p, tile);
    if (warp == s.workers() + 2 && p.m.vectors_residual) fetch_residuals(p, tile);
    return;
  }
  fill_bias(tile.bias, p.m.filtered.bias, p.m.hidden, p.chunks * s.chunk(), 32 * s.workers());
  fill_bias(tile.result_bias(p), p.m.projected.bias, p.m.results, s.results(), 32 * s.workers());
  ptx::meet(1, 32 * s.workers());
  if (warp < 4 * s.groups) {
    ptx::take_registers<s.multiply_registers()>();
    if (warp < 4)
      multiply<Block, 0>(p, tile);
    else
      multiply<Block, s.groups - 1>(p, tile);
  } else {
    if constexpr (s.filter_registers() < s.dealt() / (s.threads() / 128))
      ptx::release_registers<s.filter_registers()>();
    else
      ptx::take_registers<s.filter_registers()>();
    filter(p, tile, warp - 4 * s.groups);
  }
}

template <class T, int... i>
Kernel kernel_of(int which, std::integer_sequence<int, i...>) {
  constexpr Kernel kKernels[] = {pipe_pair<T, i>...};
  return kKernels[which];
}
template <class T>
Kernel kernel_of(int which) {
  return kernel_of<T>(which, std::make_integer_sequence<int, kShapeCount>());
}

} // namespace polyconv::cuda::piped

#define POLYCONV_INSTANCE(T) template piped::Kernel piped::kernel_of<T>(int);
