// pooled.hpp - two layers of few channels, each with max pooling behind it, an image a block: how the images lie
// in shared memory.
//
// The input lies as in few.hpp, twice. So does the image between the layers, positions of four channels: two of
// them are the 16 bytes that a matrix's row has, and the second copy, one position further to the left, has those that
// begin at odd places.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/few.hpp"

namespace polyconv::cuda::pooled {

inline constexpr int kWarps = 4; // of a block
inline constexpr int kPosition = 8;
// The LeNet of 86 x 86 pixels: 7 x 7, pooled by 2; 7 x 7, pooled by 4.
inline constexpr few::Shape kShapes[2] = {{7, 7, 1, 1, 8}, {7, 7, 1, 4, 16}};
inline constexpr int kPools[2] = {2, 4};

// Packed weights: 8 x 8 blocks as in few.hpp; a block of the second layer's reduction is two taps.
inline int blocks_of(int layer) {
  return layer == 0 ? kShapes[0].rows : kShapes[1].rows * ((kShapes[1].columns + 1) / 2) * (kShapes[1].out / 8);
}

// A layer, and the frame that it reads: bytes of shared memory, from the first copy to the second, from row to row.
struct Layer {
  const void *weights = nullptr;
  const float *bias = nullptr;
  float low = 0, high = 0;
  int32_t rows = 0, columns = 0, results = 0; // results: channels; rows and columns: after pooling, as many as are used
  int32_t frame = 0, second = 0, row_bytes = 0, left = 0, pad[2] = {}; // left: columns before the image, even
};

struct Chain {
  const void *input = nullptr;
  void *result = nullptr;
  int32_t batch = 0, size[2] = {};
  int32_t pairs = 0;     // whether rows and images consist of aligned words
  int32_t row_magic = 0; // words of a row: i / words is i * magic >> 20
  int32_t results = 0, waiting = 0, channel_step = 0, pixel_step = 0;
  int32_t weights = 0, biases = 0, bytes = 0; // of shared memory
  Layer layer[2];
};

using Kernel = void (*)(Chain);
Kernel find(int32_t type);
void pack(const polyconv_layer &l, int layer, const void *raw, void *packed, cudaStream_t stream);

} // namespace polyconv::cuda::pooled
