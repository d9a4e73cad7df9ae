// across.cuh - the Hopper products whose weights lie across the depth: rows of filters, as gradients of data find raw
// weights where channels are last. Nothing is packed; the instruction takes either way of a factor of 16 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/shared.cuh"

namespace polyconv::cuda::wgmma {

template <class T, int Pixels, int Channels, int Groups, int Teams, int Blocks, bool Turned, int Row, int Parts>
Launcher across_launcher() {
  if constexpr (takes_across({Pixels, Channels, Groups, Teams, Blocks, Turned, false, Row, Parts}))
    return product_launcher<TileOf<T, Pixels, Channels, Groups, Teams, Blocks, Turned, Row, Row, Parts, true>>();
  else
    return {};
}
template <class T, int Pixels, int Channels, int Groups, int Blocks>
Launcher across_shared_launcher() {
  if constexpr (takes_across({Pixels, Channels, Groups, 1, Blocks, false, true}))
    return shared_launcher<SharedTileOf<T, Pixels, Channels, Groups, Blocks, true>>();
  else
    return {};
}

// In the order of kShapes; without functions for those that do not take it.
template <class T>
Launcher across_launcher_of(int shape) {
#define POLYCONV_WGMMA_ACROSS(pixels, channels, groups, teams, blocks, turned, row, parts) \
  &across_launcher<T, pixels, channels, groups, teams, blocks, turned, row, parts>,
#define POLYCONV_WGMMA_ACROSS_SHARED(pixels, channels, groups, blocks) \
  &across_shared_launcher<T, pixels, channels, groups, blocks>,
  static constexpr Launcher (*kLaunchers[])() = {POLYCONV_WGMMA_TILES(POLYCONV_WGMMA_ACROSS)
                                                     POLYCONV_WGMMA_SHARED_TILES(POLYCONV_WGMMA_ACROSS_SHARED)};
#undef POLYCONV_WGMMA_ACROSS
#undef POLYCONV_WGMMA_ACROSS_SHARED
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma

#undef POLYCONV_INSTANCE // shared.cuh's
#define POLYCONV_INSTANCE(T) template wgmma::Launcher wgmma::across_launcher_of<T>(int);
