// weights.hpp - the gradient of weights with channels first, as the host sees it: the product of weights/weights.hpp
// over images whose pixels are a row, in blocks of 64 pixels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "first/first.hpp"
#include "weights/weights.hpp"

namespace polyconv::cuda::first {

#define POLYCONV_FIRST_WEIGHTS_TILES(tile)                                                               \
  tile(128, 4, 2, 1, wgmma::kAlone, "128x256") tile(128, 3, 2, 1, wgmma::kAlone, "128x192")              \
      tile(128, 2, 2, 1, wgmma::kInClusters, "128x128") tile(128, 1, 2, 1, wgmma::kInClusters, "128x64") \
          tile(64, 2, 1, 1, wgmma::kInClusters, "64x128") tile(64, 1, 1, 1, wgmma::kInClusters, "64x64")
#define POLYCONV_FIRST_WEIGHTS_SHAPE(rows, chunks, row_groups, chunk_groups, ways, name) \
  {rows, chunks, row_groups, chunk_groups, 64, ways, true},
inline constexpr wgmma::WeightsShape kFirstWeightsShapes[] = {
    POLYCONV_FIRST_WEIGHTS_TILES(POLYCONV_FIRST_WEIGHTS_SHAPE)};
inline constexpr int kFirstWeightsShapeCount = sizeof kFirstWeightsShapes / sizeof *kFirstWeightsShapes;

template <class T>
wgmma::WeightsLauncher first_weights_launcher_of(int shape);

} // namespace polyconv::cuda::first
