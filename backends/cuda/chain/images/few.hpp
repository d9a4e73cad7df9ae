// few.hpp - chains of few channels on small images, two warps an image: how the images between the layers lie in
// their shared memory.
//
// The first layer's input has one channel, and lies twice, the second time one pixel further to the left, so that two
// neighbouring pixels are one aligned word wherever they begin. All others are frames of positions, each 8 or 16
// channels, with the padding of the layer that reads them around the image: it is written once, and stays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>
#include <polyconv/sdk/kernel.hpp>

#include <cstdint>

namespace polyconv::cuda::few {

inline constexpr int kLayers = 4; // at most
inline constexpr int kTeam = 64;  // threads of an image
inline constexpr int kWords = 7;  // of an image, a thread: what waits in registers for its turn
inline constexpr int kMostPixels = kWords * 2 * kTeam;
inline constexpr int kMostTeams = 8;
inline constexpr int kBlockWords = 32;                  // 8 x 8 weights, a word a lane
inline constexpr int kBiases = 16;                      // of a layer
inline constexpr int kFirstColumns = 32, kColumns = 16; // of outputs: matrix instructions have 16 rows

// A layer, and its input frame. Offsets are bytes in the team's shared memory.
struct Layer {
  const void *weights = nullptr; // packed
  const float *bias = nullptr;
  float low = 0, high = 0; // the activation's bounds
  int32_t rows = 0, columns = 0, results = 0;
  int32_t frame = 0, row_bytes = 0, pad[2] = {};
  int32_t blocks = 0; // of packed weights
};

struct Chain {
  const void *input = nullptr;
  void *result = nullptr;
  int32_t batch = 0, layers = 0;
  int32_t size[2] = {};                                  // of the input
  int32_t second = 0;                                    // from the first copy of the input to the second
  int32_t left = 0;                                      // columns of its frame before the image: even
  int32_t pairs = 0;                                     // whether rows and images consist of aligned words
  int32_t results = 0;                                   // elements of an image's result, which waits at:
  int32_t waiting = 0, channel_step = 0, pixel_step = 0; // elements
  int32_t image_bytes = 0, teams = 0;
  Layer layer[kLayers];

  __host__ __device__ int32_t weight_words() const {
    int32_t words = 0;
    for (int i = 0; i < kLayers; ++i) words += layer[i].blocks * kBlockWords;
    return words;
  }
  // Weights, biases, and where each word of an image goes; then the images.
  __host__ __device__ int32_t common_bytes() const {
    return (weight_words() * 4 + kLayers * kBiases * 4 + kMostPixels * 2 + 15) / 16 * 16;
  }
  int64_t shared_bytes() const { return common_bytes() + int64_t{teams} * image_bytes; }
};

using Kernel = void (*)(Chain);
Kernel find_strided(int32_t type);

// What a kernel has for each layer: taps, stride, and the most channels in and out. 1 channel in: the first kind.
struct Shape {
  int rows, columns, step, in, out;
  // Of packed weights: in a row of taps, then in all, each 8 x 8.
  int row_blocks() const { return in == 1 ? 1 : columns * in / 8; }
  int blocks() const { return rows * row_blocks() * (out / 8); }
};
inline constexpr Shape kStrided[kLayers] = {{5, 5, 1, 1, 8}, {4, 4, 2, 8, 16}, {3, 3, 1, 16, 8}, {3, 3, 1, 8, 8}};

inline int64_t packed_bytes(const Shape &shape) {
  return int64_t{shape.blocks()} * kBlockWords * 4;
}
void pack(const polyconv_layer &l, const Shape &shape, const void *raw, void *packed, cudaStream_t stream);

} // namespace polyconv::cuda::few
