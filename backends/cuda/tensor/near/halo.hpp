// halo.hpp - what the host knows of the Hopper product that keeps weights and patches in shared memory: its
// geometry as a kernel argument, and the launch. For at most 64 input channels and 9 taps, or 32 channels and 27 taps;
// images of one to three axes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

inline constexpr int kHaloChannels = 64;   // of a block, in and out: the rows of a product
inline constexpr int kHaloColumns = 232;   // of a product: positions of a patch
inline constexpr int kHaloPositions = 352; // of the input that a patch may read

// The bytes of a position, and how many taps of so many lie in shared memory.
constexpr int halo_row(int64_t channels) {
  return channels <= 32 ? 64 : 128;
}
constexpr int halo_taps(int row) {
  return row == 64 ? 27 : 9;
}

struct HaloProduct {
  CUtensorMap input, weights, results; // first: they are aligned to 64 bytes
  const float *bias = nullptr;
  int32_t out[3] = {}, pad[3] = {};
  int32_t channels = 0, channel_tiles = 0;
  int32_t patch[2] = {}, patches[2] = {}; // outputs of a patch, within a plane; patches of a plane
  int32_t count = 0;                      // of patches, of all images
  int32_t pitch = 0;                      // positions from one row of a patch to the next
  int32_t positions = 0;                  // that the TMA brings of a plane
  int32_t taps[3] = {}, dilation[3] = {};
  int32_t steps = 0;  // of 16 input channels
  int32_t volume = 0; // images have three axes
  int32_t relu = 0;
  int32_t new_weights = 0, taps_reversed = 0; // as Product's
};

// The patches for a layer; without any where none fits.
HaloProduct halo_product(const polyconv_layer &layer);
// `across`: the weights lie across the depth.
void launch_halo(const HaloProduct &product, bool bf16, bool across, int multiprocessors, cudaStream_t stream);
void prepare_halo(const HaloProduct &product, bool bf16, bool across);

} // namespace polyconv::cuda::wgmma
