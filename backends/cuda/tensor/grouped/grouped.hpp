// grouped.hpp - the geometry of mma_grouped.cu as a kernel argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <cstdint>

#include "mma/product.hpp"

namespace polyconv::cuda::tensor {

inline constexpr int kGroupedThreads = 256;

// The input channels of a block, whole groups of so many: 128 bytes, or 96. The bytes of a position of a block's
// channels: an odd number of chunks of 16, which keeps neighbours apart in the banks.
constexpr int slice_channels(int64_t of_group, int64_t element_bytes) {
  return static_cast<int>((of_group == 24 ? 96 : 128) / element_bytes);
}
constexpr int position_bytes(int64_t channels, int64_t element_bytes) {
  return static_cast<int>(channels * element_bytes) + 16;
}

// Blocks that share a multiprocessor, by their registers.
constexpr int blocks_together(int in, int out, int element_bytes) {
  return in * element_bytes == 16 && out * element_bytes == 16 ? 3 : 2;
}

struct GroupedProduct {
  const void *input = nullptr, *weights = nullptr;
  void *result = nullptr;
  const float *bias = nullptr;
  int64_t in_image = 0, out_image = 0; // elements from one to the next, as below
  int32_t in_row = 0, in_pixel = 0, out_row = 0, out_pixel = 0;
  int32_t in[2] = {}, out[2] = {}, taps[2] = {}, stride[2] = {}, dilation[2] = {}, pad[2] = {}; // H, W
  int32_t tile[2] = {}, patch[2] = {}, tiles[2] = {}; // outputs and inputs of a patch, patches of an image
  // A row of a patch has its columns in as many runs as the stride has phases: those that one tap reads are neighbours
  // then, whatever the stride, and lie apart in the banks.
  int32_t run = 0, row = 0;                                  // positions
  int32_t patches = 0, slices = 0, slice = 0, out_slice = 0; // the last two: the channels of a slice
  int32_t channels = 0, out_channels = 0, groups = 0;        // of all slices; the last one may have less than a slice
  int32_t chunks = 0;                                        // of k, in each group
  int32_t position = 0, out_position = 0;                    // bytes, of a slice's channels
  int32_t weights_bytes = 0;                                 // of a slice
  int32_t relu = 0;
  int32_t marches = 0; // see grouped.cuh

  __host__ __device__ int32_t positions() const { return patch[0] * row; }
  __host__ __device__ int32_t tile_pixels() const { return tile[0] * tile[1]; }
  __host__ __device__ int32_t blocks() const { return (chunks + 3) / 4; } // of k
  // Two patches, a position of zeros, results, weights; then words for each position, pixel and chunk.
  int32_t shared_bytes() const {
    return (2 * positions() + 1) * position + tile_pixels() * out_position + weights_bytes +
           (positions() + 2 * tile_pixels() + 4 * blocks()) * int32_t{sizeof(int32_t)};
  }
};

// The residues of a strided gradient of data, in one launch: blocks up to `end` are of this part and those before it.
inline constexpr int kMostGroupedParts = 4;
struct GroupedParts {
  GroupedProduct part[kMostGroupedParts];
  int32_t end[kMostGroupedParts] = {};
  int32_t parts = 0;
};

// What the kernels share on the host (mma_grouped.cu). Of a layer's type and math:
Products grouped_type(const polyconv_layer &layer);
// The tiles that cut an image into equal parts with the least work; tile[0] is 0 where none fits. `may_march`: see
// grouped.cuh.
GroupedProduct best_grouped(const polyconv_layer &layer, bool may_march);
int32_t most_grouped_shared(const polyconv_layer &layer); // bytes of a block

} // namespace polyconv::cuda::tensor
