// instances.cuh - the gradient of weights on Hopper, channels last: its tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weights/product.cuh"

namespace polyconv::cuda::wgmma {

// The launcher of each shape, in the order of kWeightsShapes.
template <class T>
WeightsLauncher weights_launcher_of(int shape) {
#define POLYCONV_WGMMA_WEIGHTS_LAUNCHER(rows, chunks, row_groups, chunk_groups, depth, ways) \
  &weights_launcher<WeightsTile<T, rows, chunks, row_groups, chunk_groups, depth>, ways>,
  static constexpr WeightsLauncher (*kLaunchers[])() = {POLYCONV_WGMMA_WEIGHTS_TILES(POLYCONV_WGMMA_WEIGHTS_LAUNCHER)};
#undef POLYCONV_WGMMA_WEIGHTS_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma

#define POLYCONV_INSTANCE(T) template wgmma::WeightsLauncher wgmma::weights_launcher_of<T>(int);
