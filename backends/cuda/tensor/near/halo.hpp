// halo.hpp - what the host knows of the Hopper product that keeps weights and patches in shared memory: its
// geometry as a kernel argument, and the launch. For at most 64 input channels and 9 taps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

inline constexpr int kHaloChannels = 64;   // of a block, in and out: the rows of a product
inline constexpr int kHaloColumns = 232;   // of a product: positions of a patch
inline constexpr int kHaloPositions = 352; // of the input that a patch may read
inline constexpr int kHaloTaps = 9;

struct HaloProduct {
  CUtensorMap input, weights; // first: they are aligned to 64 bytes
  const float *bias = nullptr;
  void *result = nullptr;
  int64_t image = 0, row = 0, pixel = 0; // elements of the result from one to the next
  int32_t out[2] = {}, pad[2] = {};
  int32_t channels = 0, channel_tiles = 0;
  int32_t patch[2] = {}, patches[2] = {}; // outputs of a patch, patches of an image
  int32_t count = 0;                      // of patches, of all images
  int32_t pitch = 0;                      // positions from one row of a patch to the next
  int32_t patch_bytes = 0;                // that the TMA brings
  int32_t taps[2] = {}, dilation[2] = {};
  int32_t steps = 0; // of 16 input channels: 2 or 4
  int32_t relu = 0;
};

// The patches for a layer; without any where none fits.
HaloProduct halo_product(const polyconv_layer &layer);
void launch_halo(const HaloProduct &product, bool bf16, int multiprocessors, cudaStream_t stream);
void prepare_halo(const HaloProduct &product, bool bf16);

} // namespace polyconv::cuda::wgmma
