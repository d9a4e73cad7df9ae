// weights.cuh - the gradient of weights on Hopper, channels first, windows of one element: dw[k][c] = sum over pixels
// of dy[k][pixel] * x[c][pixel]. Both factors lie along the depth, as the instruction likes them best; all else is
// weights/weights.cuh's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "first/weights.hpp"
#include "weights/product.cuh"

namespace polyconv::cuda::first {

template <class Type, int Rows, int Chunks, int RowGroups, int ChunkGroups, int Depth>
struct FirstWeightsTile : wgmma::WeightsTile<Type, Rows, Chunks, RowGroups, ChunkGroups, Depth> {
  static constexpr bool in_rows = true;
  static_assert(Depth == 64, "rows of 128 bytes, which the TMA swizzles");
};

// The launcher of each shape, in the order of kFirstWeightsShapes.
template <class T>
wgmma::WeightsLauncher first_weights_launcher_of(int shape) {
#define POLYCONV_FIRST_WEIGHTS_LAUNCHER(rows, chunks, row_groups, chunk_groups, ways, name) \
  &wgmma::weights_launcher<FirstWeightsTile<T, rows, chunks, row_groups, chunk_groups, 64>, ways>,
  static constexpr wgmma::WeightsLauncher (*kLaunchers[])() = {
      POLYCONV_FIRST_WEIGHTS_TILES(POLYCONV_FIRST_WEIGHTS_LAUNCHER)};
#undef POLYCONV_FIRST_WEIGHTS_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::first

#define POLYCONV_INSTANCE(T) template wgmma::WeightsLauncher first::first_weights_launcher_of<T>(int);
