// wgmma_strided.cuh - the Hopper product (wgmma_product.cuh) over the parts of a strided gradient: a block takes tiles
// of one part after the other, those of most depth first, so that the short ones fill the last round.
//
// Floor: as wgmma_product.cuh, or the bytes of the result, of which parts of 1 x 1 windows write most as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma_product.cuh"
#include "wgmma_strided.hpp"

namespace polyconv::cuda::wgmma {

template <class Type, int Pixels, int Channels, int Groups, int Teams, int Blocks, bool Turned>
struct StridedTileOf : TileOf<Type, Pixels, Channels, Groups, Teams, Blocks, Turned> {
  static constexpr bool scattered = true;
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

template <class Tile>
StridedLauncher strided_launcher() {
  const auto prepare = [] {
    check(cudaFuncSetAttribute(multiply_tiles<Tile, StridedProduct>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               Tile::shared_bytes),
          "asking for shared memory");
  };
  const auto launch = [](const StridedProduct &p, int multiprocessors, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(std::min(p.end[p.parts - 1], multiprocessors * Tile::blocks));
    launch_early(multiply_tiles<Tile, StridedProduct>, blocks, Tile::threads, Tile::shared_bytes, stream, p);
  };
  return {prepare, launch};
}

template <class T>
StridedLauncher strided_launcher_of(int config) {
#define POLYCONV_WGMMA_STRIDED_LAUNCHER(shape, pixels, channels, groups, teams, blocks, turned, name) \
  &strided_launcher<StridedTileOf<T, pixels, channels, groups, teams, blocks, turned>>,
  static constexpr StridedLauncher (*kLaunchers[])() = {POLYCONV_WGMMA_STRIDED_TILES(POLYCONV_WGMMA_STRIDED_LAUNCHER)};
#undef POLYCONV_WGMMA_STRIDED_LAUNCHER
  return kLaunchers[config]();
}

} // namespace polyconv::cuda::wgmma
