// emulated.hpp - the Hopper product of f32 in parts, as the host sees it: tile shapes as configs, packed weights,
// launch. Maps and geometry are those of wgmma/product.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

#define POLYCONV_EMULATED_TILES(tile) \
  tile(128, 128, 2, 1, 1) tile(128, 160, 2, 1, 1) tile(256, 64, 2, 1, 1) tile(192, 64, 3, 1, 1) tile(64, 64, 1, 1, 2)
#define POLYCONV_EMULATED_SHAPE(pixels, channels, groups, teams, blocks) \
  {pixels, channels, groups, teams, blocks, false, false},
inline constexpr Shape kEmulatedShapes[] = {POLYCONV_EMULATED_TILES(POLYCONV_EMULATED_SHAPE)};
#define POLYCONV_EMULATED_CONFIGS(config)                                                                       \
  config(0, 1, "128x128", "") config(1, 1, "128x160", "") config(2, 1, "256x64", "") config(3, 1, "192x64", "") \
      config(4, 1, "64x64", "") config(0, 2, "128x128", "k2") config(0, 3, "128x128", "k3")                     \
          config(0, 4, "128x128", "k4") config(1, 2, "128x160", "k2") config(1, 4, "128x160", "k4")             \
              config(3, 2, "192x64", "k2") config(4, 2, "64x64", "k2") config(4, 4, "64x64", "k4")              \
                  config(4, 8, "64x64", "k8") config(4, 16, "64x64", "k16")
inline constexpr Config kEmulatedConfigs[] = {POLYCONV_EMULATED_CONFIGS(POLYCONV_WGMMA_CONFIG)};
inline constexpr int kEmulatedConfigCount = sizeof kEmulatedConfigs / sizeof *kEmulatedConfigs;

int64_t parts_bytes(const polyconv_layer &layer);
void pack_parts(const polyconv_layer &layer, const void *raw, void *packed, cudaStream_t stream);
Launcher product_emulated(int shape);
// The whole run where the input does not begin at whole 16 bytes: f32 products.
void multiply_unaligned_parts(const polyconv_layer &layer, const polyconv_arguments &arguments, cudaStream_t stream);

} // namespace polyconv::cuda::wgmma
