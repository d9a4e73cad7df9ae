// strided.cuh - the Hopper product (wgmma/product.cuh) over the parts of a strided gradient: a block takes tiles
// of one part after the other, those of most depth first, so that the short ones fill the last round.
// Meanwhile a warp of its own stores zeros where no taps meet.
//
// Floor: as wgmma/product.cuh, or the bytes of the result, of which parts of 1 x 1 windows write most as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "strided/strided.hpp"
#include "wgmma/product.cuh"

namespace polyconv::cuda::wgmma {

template <class Type, int Pixels, int Channels, int Groups, int Teams, int Blocks, bool Turned, bool Across>
struct StridedTileOf : TileOf<Type, Pixels, Channels, Groups, Teams, Blocks, Turned, 128, 128, 1, Across> {
  using Base = TileOf<Type, Pixels, Channels, Groups, Teams, Blocks, Turned, 128, 128, 1, Across>;
  static constexpr bool scattered = true;
  static constexpr int zero_bytes = kZeroPixels * 128; // behind the barriers
  static constexpr int stages = std::min(8, (Base::most_bytes - Base::leave_bytes - zero_bytes) / Base::stage_bytes);
  static constexpr int shared_bytes = stages * Base::stage_bytes + Base::leave_bytes + zero_bytes + 1024 + 256;
  // The producer finds a tile's part too, for which the base's registers do not do.
  static constexpr int producer_registers = 48;
  static constexpr int consumer_registers =
      consumer_registers_of(Base::registers * Base::threads, producer_registers, Groups);
  static_assert(stages >= 3, "not a tile");
};

template <class Tile>
__device__ inline int32_t count_turns(const StridedProduct &p) {
  return p.end[p.parts - 1];
}
__device__ inline const Product &product_of(const StridedProduct &p, int32_t &turn) {
  int32_t which = 0, before = 0;
#pragma unroll
  for (int i = 0; i < kMostParts - 1; ++i)
    if (i < p.parts - 1 && turn >= p.end[i]) which = i + 1, before = p.end[i];
  turn -= before;
  return p.part[which];
}

__device__ inline void store_zeros(const Zeros &z, uint32_t from, int32_t channel, int32_t pixel) {
  const int32_t row = pixel / z.out[2], plane = row / z.out[1], w = pixel - row * z.out[2], h = row - plane * z.out[1];
  const int32_t image = plane / z.out[0];
  if (z.flat)
    ptx::store_pixels(&z.results, from, channel, w, h, image);
  else
    ptx::store_pixels(&z.results, from, channel, w, h, plane - image * z.out[0], image);
}

// All zeros, shared out to the blocks.
template <class Tile>
__device__ inline void work_aside(const StridedProduct &p, uint32_t shared) {
  if (p.zero_parts == 0) return;
  const uint32_t from = shared + Tile::leave_bytes + Tile::stages * Tile::stage_bytes + 256;
  for (uint32_t i = threadIdx.x % 32 * 8; i < Tile::zero_bytes; i += 32 * 8) ptx::store_pair(from + i, 0, 0);
  ptx::fence_for_tma();
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  const int32_t chunks = (p.part[0].channels + 63) / 64;
  for (int32_t part = 0; part < p.zero_parts; ++part) {
    const Zeros &z = p.zeros[part];
    const int32_t boxes = (z.pixels + kZeroPixels - 1) / kZeroPixels * chunks;
    for (auto i = static_cast<int32_t>(blockIdx.x); i < boxes; i += static_cast<int32_t>(gridDim.x)) {
      store_zeros(z, from, i % chunks * 64, i / chunks * kZeroPixels);
      ptx::stores_commit();
    }
  }
  ptx::stores_read<0>();
}

template <class Tile>
StridedLauncher strided_launcher() {
  const auto prepare = [] { allow_shared(multiply_tiles<Tile, StridedProduct>, Tile::shared_bytes); };
  const auto launch = [](const StridedProduct &p, int multiprocessors, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(std::min(p.end[p.parts - 1], multiprocessors * Tile::blocks));
    launch_early(multiply_tiles<Tile, StridedProduct>, blocks, Tile::threads, Tile::shared_bytes, stream, p);
  };
  return {prepare, launch};
}

template <class T, bool Across>
StridedLauncher strided_launcher_of(int config) {
#define POLYCONV_WGMMA_STRIDED_LAUNCHER(shape, pixels, channels, groups, teams, blocks, turned, name) \
  &strided_launcher<StridedTileOf<T, pixels, channels, groups, teams, blocks, turned, Across>>,
  static constexpr StridedLauncher (*kLaunchers[])() = {POLYCONV_WGMMA_STRIDED_TILES(POLYCONV_WGMMA_STRIDED_LAUNCHER)};
#undef POLYCONV_WGMMA_STRIDED_LAUNCHER
  return kLaunchers[config]();
}
template <class T>
StridedLauncher strided_launcher_of(int config, bool across) {
  return across ? strided_launcher_of<T, true>(config) : strided_launcher_of<T, false>(config);
}

} // namespace polyconv::cuda::wgmma

#define POLYCONV_INSTANCE(T) template wgmma::StridedLauncher wgmma::strided_launcher_of<T>(int, bool);
