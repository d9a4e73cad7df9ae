// launch.cuh - the kernel around a loop over k, and its launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/machine.hpp"
#include "common/ptx/grid.cuh"
#include "mma/leave.cuh"
#include "mma/pipeline.cuh"

namespace polyconv::cuda::tensor {

template <class P, class Tile, Source Kind>
inline constexpr int kSharedBytes =
    Pipeline<P, Tile, Kind>::bytes > int{sizeof(Leaving<Tile>)} ? Pipeline<P, Tile, Kind>::bytes
                                                                : int{sizeof(Leaving<Tile>)};

// Loop::multiply sums a tile.
template <class Loop, class P, class Tile, Source Kind>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_mma(const __grid_constant__ MmaProduct p) {
  ptx::await_previous();
  extern __shared__ __align__(128) unsigned char shared[];
  // Blocks that run together share activations: channels go first.
  const unsigned rest = blockIdx.x / p.channel_tiles;
  Corner corner;
  corner.channel = static_cast<int32_t>(blockIdx.x % p.channel_tiles) * Tile::channels;
  corner.pixel = p.first_pixel + static_cast<int64_t>(rest % p.pixel_tiles) * Tile::pixels;
  corner.group = static_cast<int32_t>(rest / p.pixel_tiles);

  MmaSums<Tile> sums = {};
  Loop::template multiply<Tile, Kind>(sums, p, shared, corner);
  leave<Tile>(p, sums, shared, corner);
}

template <class Loop, class P, class Tile, Source Kind>
MmaLauncher mma_launcher() {
  const auto prepare = [] { allow_shared(multiply_mma<Loop, P, Tile, Kind>, kSharedBytes<P, Tile, Kind>); };
  const auto launch = [](const MmaProduct &given, cudaStream_t stream) {
    MmaProduct p = given;
    p.pixel_tiles = static_cast<int32_t>((p.pixels - p.first_pixel + Tile::pixels - 1) / Tile::pixels);
    p.channel_tiles = (p.group_out + Tile::channels - 1) / Tile::channels;
    const auto blocks =
        static_cast<unsigned>(p.pixel_tiles) * static_cast<unsigned>(p.channel_tiles) * static_cast<unsigned>(p.groups);
    launch_waiting(multiply_mma<Loop, P, Tile, Kind>, dim3(blocks, static_cast<unsigned>(p.splits)), Tile::threads,
                   kSharedBytes<P, Tile, Kind>, stream, p);
  };
  return {prepare, launch, kSharedBytes<P, Tile, Kind>};
}

// The tiles with registers to spare, from every source; a loop may have other warps in them.
template <class Loop, class P, class Large = Mma128x64, class Small = Mma64x64>
MmaLauncher mma_by_spare_tile(int tile, Source source) {
  const auto of = [source](auto shape) {
    using Tile = decltype(shape);
    static_assert(kSharedBytes<P, Tile, Source::kVectors> <= kLentShared, "what every chip from 8.0 on lends a block");
    if constexpr (sizeof(typename P::Type) == 2)
      if (source == Source::kShifted) return mma_launcher<Loop, P, Tile, Source::kShifted>();
    return source == Source::kVectors ? mma_launcher<Loop, P, Tile, Source::kVectors>()
           : source == Source::kWords ? mma_launcher<Loop, P, Tile, Source::kWords>()
                                      : mma_launcher<Loop, P, Tile, Source::kGathered>();
  };
  return tile == k128x64 ? of(Large()) : of(Small());
}

// Every tile; those with few registers to spare take vectors alone (has_tile).
template <class Loop, class P>
MmaLauncher mma_by_tile(int tile, Source source) {
  switch (tile) {
    case k256x128: return mma_launcher<Loop, P, Mma256x128, Source::kVectors>();
    case k128x128: return mma_launcher<Loop, P, Mma128x128, Source::kVectors>();
    default: return mma_by_spare_tile<Loop, P>(tile, source);
  }
}

} // namespace polyconv::cuda::tensor
