// strided.hpp - what the host knows of the Hopper product for backward data of strided layers: a product for each
// residue of the strides (sdk/adjoint.hpp), all in one launch, tile after tile. Each stores its pixels in place, every
// other of the result's, through a map of them; where no taps meet, tiles are products without depth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

inline constexpr int kMostParts = kMostPacked; // those of volumes at stride 2 too

// Pixels that no taps meet, and the map by which zeros are stored there, kZeroPixels x 64 channels at once.
inline constexpr int kZeroPixels = 64;
struct Zeros {
  CUtensorMap results;
  int32_t out[3], pixels, flat;
};

// Parts of most depth come first.
struct StridedProduct {
  Product part[kMostParts];
  Zeros zeros[kMostParts - 1] = {};
  int32_t end[kMostParts] = {}; // turns of this part and of those before it
  int32_t parts = 0, zero_parts = 0;

  explicit StridedProduct(const Product &any) : part{any, any, any, any, any, any, any, any} {}
};

// Configs: a shape's place in kShapes, its arguments, and the name.
#define POLYCONV_WGMMA_STRIDED_TILES(tile)                                                        \
  tile(1, 256, 128, 2, 1, 1, true, "256x128x64c") tile(2, 192, 128, 2, 1, 1, true, "192x128x64c") \
      tile(4, 128, 128, 2, 2, 1, false, "128x128x64t2") tile(6, 256, 64, 2, 2, 1, true, "256x64x64ct2")
#define POLYCONV_WGMMA_STRIDED_SHAPE(shape, pixels, channels, groups, teams, blocks, turned, name) shape,
inline constexpr int kStridedShapes[] = {POLYCONV_WGMMA_STRIDED_TILES(POLYCONV_WGMMA_STRIDED_SHAPE)};
inline constexpr int kStridedConfigs = sizeof kStridedShapes / sizeof *kStridedShapes;

struct StridedLauncher {
  void (*prepare)();
  void (*launch)(const StridedProduct &product, int multiprocessors, cudaStream_t stream);
};
// `across`: weights are raw ones across the depth.
template <class T>
StridedLauncher strided_launcher_of(int config, bool across);

} // namespace polyconv::cuda::wgmma
