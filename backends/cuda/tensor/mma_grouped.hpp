// mma_grouped.hpp - the geometry of kernels/mma_grouped.cu as a kernel argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::cuda::tensor {

inline constexpr int kGroupedThreads = 256;
inline constexpr int kSliceChannels = 64; // of a block: whole groups
inline constexpr int kPositionBytes = 128;

struct GroupedProduct {
  const void *input = nullptr, *weights = nullptr;
  void *result = nullptr;
  const float *bias = nullptr;
  int64_t in_image = 0, out_image = 0; // elements from one to the next, as below
  int32_t in_row = 0, in_pixel = 0, out_row = 0, out_pixel = 0;
  int32_t in[2] = {}, out[2] = {}, taps[2] = {}, stride[2] = {}, dilation[2] = {}, pad[2] = {}; // H, W
  int32_t tile[2] = {}, patch[2] = {}, tiles[2] = {}; // outputs and inputs of a block, blocks of an image
  int32_t images = 0, slices = 0;
  int32_t blocks = 0;        // of k, in each group
  int32_t steps = 0;         // of two chunks of k
  int32_t weights_bytes = 0; // of a slice
  int32_t relu = 0;

  __host__ __device__ int32_t positions() const { return patch[0] * patch[1]; }
  __host__ __device__ int32_t tile_pixels() const { return tile[0] * tile[1]; }
  int32_t shared_bytes() const {
    return (positions() + 1 + tile_pixels()) * kPositionBytes + weights_bytes + blocks * 4 * int{sizeof(int32_t)};
  }
};

} // namespace polyconv::cuda::tensor
