// first.cuh - the Hopper product with channels first. One warp, the producer, has the TMA fetch blocks of depth into a
// ring in shared memory: of weights rows of 64 channels, of activations rows of 64 pixels, which the product takes
// along the pixels ("MN-major"), so that nothing is ever transposed. The consumer warpgroups keep the sums of the tile
// in registers; these leave as rows of pixels through shared memory, while the ring fills for the next tile.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores; a tile of 128 x 256 fetches 48 KiB for 1024 clocks of
// products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "first/first.hpp"
#include "weights/weights.cuh"

namespace polyconv::cuda::first {

template <class Type, int Rows, int Chunks, int RowGroups, int ChunkGroups, int Depth>
struct FirstTile : wgmma::WeightsTile<Type, Rows, Chunks, RowGroups, ChunkGroups, Depth> {
  using Base = wgmma::WeightsTile<Type, Rows, Chunks, RowGroups, ChunkGroups, Depth>;
  static constexpr int row_bytes = Rows * 128, stage_bytes = row_bytes + Chunks * Base::chunk_bytes;
  static constexpr int row_groups = RowGroups;
  static constexpr int group_chunks = Chunks / ChunkGroups;
  static constexpr int leave_bytes = Rows * Chunks * 128; // of a tile's sums on their way out
  static constexpr int stages = std::min(8, (kHopperShared - leave_bytes - 1024 - 256) / stage_bytes);
  static constexpr int shared_bytes = stages * stage_bytes + leave_bytes + 1024 + 256;
  static_assert(stages >= 3, "not a tile");
};

// Where a chunk's outputs lie; behind the last chunk, in an image that does not exist.
struct Chunk {
  int32_t pixel, image;

  __device__ Chunk(const FirstProduct &p, int32_t chunk) : image(p.by_image_chunks(chunk)) {
    pixel = (chunk - image * p.image_chunks) * kChunk;
    if (chunk >= p.chunks) image = p.images;
  }
};

// ---------------------------------------------------------------- the producer

// By a whole warp: a lane each fetches a chunk's activations of every block, and one more the weights.
template <class Tile>
__device__ inline void fetch_tile(const FirstProduct &p, int32_t tile, wgmma::WeightsRing<Tile> &ring) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t column = p.by_row_tiles(tile), row = (tile - column * p.row_tiles) * Tile::rows;
  const Chunk at(p, column * Tile::chunks + lane % Tile::chunks);
  for (int32_t block = 0; block < p.depth_blocks; ++block, ring.next()) {
    ring.await_empty();
    if (lane == 0) ptx::barrier_expect(ring.full(), Tile::stage_bytes);
    __syncwarp();
    const int32_t channel = block * Tile::depth;
    if (lane < Tile::chunks)
      ptx::load_box(ring.chunks() + lane * Tile::chunk_bytes, &p.activations, ring.full(), at.pixel, channel, at.image);
    else if (lane == Tile::chunks)
      ptx::load_box(ring.rows(), &p.weights, ring.full(), channel, 0, row);
  }
}

// ---------------------------------------------------------------- the consumers

template <class Tile>
__device__ inline void sum_tile(wgmma::WeightsSums<Tile> &sums, int32_t blocks, wgmma::WeightsRing<Tile> &ring,
                                int row_group, int chunk_group) {
  constexpr int kRows = 64 * 128 >> 4, kPixels = Tile::chunk_bytes >> 4; // of descriptors: to the next 64
  for (int32_t block = 0; block < blocks; ++block, ring.next()) {
    ring.await_full();
    const uint64_t a = ptx::matrix_descriptor(ring.rows()) + row_group * Tile::products * kRows;
    const uint64_t b = wgmma::channels_descriptor<Tile>(ring.chunks()) + chunk_group * Tile::group_chunks * kPixels;
    ptx::products_fence();
#pragma unroll
    for (int product = 0; product < Tile::products; ++product)
#pragma unroll
      for (int k = 0; k < Tile::depth / 16; ++k)
        ptx::multiply<typename Tile::T, Tile::columns, false, true>(sums[product], a + product * kRows + k * 2,
                                                                    b + k * 128, k > 0 || block > 0);
    ptx::products_commit();
    ptx::products_wait<1>(); // the products of the stage before are done
    if (block > 0) ring.release_before();
  }
  ptx::products_wait<0>();
  ring.release_before();
}

// The row of this thread's sums within the 64 of a product; the others are those of 8 rows on.
__device__ inline int32_t row_of_thread() {
  return static_cast<int32_t>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
}

// A warpgroup's sums, with bias and relu at most, as rows of 64 pixels swizzled as the TMA does, which carries them
// out.
template <class Tile>
__device__ inline void leave(const FirstProduct &p, const wgmma::WeightsSums<Tile> &sums, uint32_t memory, int group,
                             int32_t row, int32_t chunk) {
  using T = typename Tile::T;
  constexpr int kBox = 64 * 128; // bytes
  const uint32_t mine = memory + group * Tile::products * Tile::group_chunks * kBox;
  if (threadIdx.x % 128 == 0) ptx::stores_read<0>();
  ptx::meet(group + 1, 128);
#pragma unroll
  for (int product = 0; product < Tile::products; ++product)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t within = row_of_thread() + 8 * half, channel = row + product * 64 + within;
      const float bias = p.bias != nullptr && channel < p.rows ? p.bias[channel] : 0;
      const uint32_t line = mine + product * Tile::group_chunks * kBox + within * 128 + threadIdx.x % 4 * 4;
#pragma unroll
      for (int i = 0; i < Tile::group_chunks; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float *const v = &sums[product][i * 32 + j * 4 + half * 2];
          ptx::store_word(line + i * kBox + (j ^ within % 8) * 16, ptx::pack_pair<T>(v[0] + bias, v[1] + bias, p.relu));
        }
    }
  ptx::fence_for_tma();
  ptx::meet(group + 1, 128);
  if (threadIdx.x % 128 != 0) return;
#pragma unroll 1
  for (int i = 0; i < Tile::group_chunks; ++i) {
    const Chunk to(p, chunk + i);
    if (to.image == p.images) break;
#pragma unroll
    for (int product = 0; product < Tile::products; ++product)
      if (row + product * 64 < p.rows)
        ptx::store_box(&p.results, mine + (product * Tile::group_chunks + i) * kBox, to.pixel, row + product * 64,
                       to.image);
  }
  ptx::stores_commit();
}

// ---------------------------------------------------------------- the kernel

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 1) multiply_first(const __grid_constant__ FirstProduct p) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t leaving = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled: begins at 1024 bytes
  wgmma::WeightsRing<Tile> ring(leaving + Tile::leave_bytes);
  if (threadIdx.x == 0) ring.init();
  if (threadIdx.x == 32) ptx::prefetch(&p.activations), ptx::prefetch(&p.weights);
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it

  const auto first = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const auto group = static_cast<int>(threadIdx.x / 128);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    if (threadIdx.x / 32 == 4 * Tile::groups)
      for (int32_t tile = first; tile < p.tiles; tile += step) fetch_tile<Tile>(p, tile, ring);
    return;
  }
  ptx::take_registers<Tile::consumer_registers>();
  const int row_group = group % Tile::row_groups, chunk_group = group / Tile::row_groups;
  wgmma::WeightsSums<Tile> sums;
  for (int32_t tile = first; tile < p.tiles; tile += step) {
    sum_tile<Tile>(sums, p.depth_blocks, ring, row_group, chunk_group);
    const int32_t column = p.by_row_tiles(tile);
    const int32_t row = (tile - column * p.row_tiles) * Tile::rows + row_group * Tile::products * 64;
    const int32_t chunk = column * Tile::chunks + chunk_group * Tile::group_chunks;
    leave<Tile>(p, sums, leaving, group, row, chunk);
  }
  if (threadIdx.x % 128 == 0) ptx::stores_read<0>();
}

template <class Tile>
FirstLauncher first_launcher() {
  const auto prepare = [] { allow_shared(multiply_first<Tile>, Tile::shared_bytes); };
  const auto launch = [](const FirstProduct &p, int multiprocessors, cudaStream_t stream) {
    launch_early(multiply_first<Tile>, static_cast<unsigned>(std::min(p.tiles, multiprocessors)), Tile::threads,
                 Tile::shared_bytes, stream, p);
  };
  return {prepare, launch};
}

// The launcher of each shape, in the order of kFirstShapes.
template <class T>
FirstLauncher first_launcher_of(int shape) {
#define POLYCONV_FIRST_LAUNCHER(rows, chunks, row_groups, chunk_groups, depth, name) \
  &first_launcher<FirstTile<T, rows, chunks, row_groups, chunk_groups, depth> >,
  static constexpr FirstLauncher (*kLaunchers[])() = {POLYCONV_FIRST_TILES(POLYCONV_FIRST_LAUNCHER)};
#undef POLYCONV_FIRST_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::first

#define POLYCONV_INSTANCE(T) template first::FirstLauncher first::first_launcher_of<T>(int);
