// wgmma_planes.hpp - what the host knows of the Hopper product of channels first: tile shapes as configs, and the
// launch. Geometry and weights are those of wgmma_product.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma_product.hpp"

namespace polyconv::cuda::wgmma {

// Pixels, channels, the warpgroups that compute, teams, whether depth is dense (wgmma_planes.cuh), the name.
#define POLYCONV_PLANES_TILES(tile)                                                                                    \
  tile(128, 256, 2, 1, false, "128x256") tile(256, 128, 2, 1, false, "256x128") tile(128, 128, 2, 1, false, "128x128") \
      tile(128, 128, 2, 2, false, "128x128t2") tile(64, 256, 2, 2, false, "64x256t2")                                  \
          tile(256, 64, 2, 1, false, "256x64") tile(128, 64, 2, 2, false, "128x64t2")                                  \
              tile(128, 128, 2, 2, true, "128x128dt2") tile(128, 64, 2, 2, true, "128x64dt2")
inline constexpr int kMostDense = 512; // depth of a dense tile
struct PlanesShape : Shape {
  bool dense;
};
#define POLYCONV_PLANES_SHAPE(pixels, channels, groups, teams, dense, name) \
  {{pixels, channels, groups, teams, 1, false, false}, dense},
inline constexpr PlanesShape kPlanesShapes[] = {POLYCONV_PLANES_TILES(POLYCONV_PLANES_SHAPE)};
inline constexpr int kPlanesShapeCount = sizeof kPlanesShapes / sizeof *kPlanesShapes;

// Weights of a dense tile: rows of channels, then taps, in whole 16 bytes.
int64_t dense_row(const polyconv_layer &layer);
void pack_dense(const polyconv_layer &layer, const void *raw, void *packed, cudaStream_t stream);

Launcher product_planes(int shape);

} // namespace polyconv::cuda::wgmma
