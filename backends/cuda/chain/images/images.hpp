// images.hpp - chains of layers of few channels on small images, f16 and bf16, a team of warps an image: the nets that
// kernels are compiled for, and how an image lies in its team's shared memory.
//
// The first layer's input has one channel, and lies twice, the second time one pixel further to the left, so that two
// neighbouring pixels are one aligned word wherever they begin. All others are frames of positions of 8 or 16 channels;
// or of 4, twice again, for a matrix's row has two of these. Around an image lies the padding of the layer that reads
// it: it is written once, and stays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>

#include <cstdint>

#include "common/divider.cuh"

namespace polyconv::cuda::images {

inline constexpr int kMostLayers = 4;
inline constexpr int kHeldWords = 7;   // of an image, a thread: what waits in registers for its turn
inline constexpr int kBlockWords = 32; // 8 x 8 weights, a word a lane
inline constexpr int kBiases = 16;     // of a layer

// A layer as kernels are compiled for it: taps; stride; the most channels in, 1, 4, 8 or 16, and out, 8 or 16; the side
// of the windows of maxima behind it, 1, 2 or 4, side by side.
struct Shape {
  int rows, columns, step, in, out, pool;

  // Of packed weights, 8 x 8 each: along the depth of a row of taps; all.
  __host__ __device__ constexpr int row_blocks() const { return (columns * in + 7) / 8; }
  constexpr int blocks() const { return rows * row_blocks() * (out / 8); }
  // Rows of the input that are read ahead of need.
  constexpr int ahead() const { return in == 1 ? 1 + (rows + 1) % 2 : 0; }
  // From one column that a matrix reads to the next: neighbouring sums that meet in a window are a lane's own.
  constexpr int read_step() const { return step * (pool > 1 ? 2 : 1); }
};

// A list of layers, the warps that share an image, the most images of a block, by the registers that a layer takes, and
// nanoseconds of a matrix instruction, fitted on an H200.
struct Net {
  int layers, warps, most_teams;
  double ns;
  Shape layer[kMostLayers];

  constexpr int threads() const { return 32 * warps; } // of a team
};
inline constexpr Net kNets[] = {
    {4, 2, 8, 2.9, {{5, 5, 1, 1, 8, 1}, {4, 4, 2, 8, 16, 1}, {3, 3, 1, 16, 8, 1}, {3, 3, 1, 8, 8, 1}}},
    {2, 2, 8, 1.7, {{5, 5, 1, 1, 8, 2}, {5, 5, 1, 8, 16, 2}}},
    {2, 2, 8, 1.7, {{5, 5, 1, 1, 8, 2}, {3, 3, 1, 8, 16, 2}}},
    {2, 2, 8, 1.7, {{3, 3, 1, 1, 8, 2}, {3, 3, 1, 8, 16, 2}}},
    {2, 4, 3, 3.7, {{7, 7, 1, 1, 8, 2}, {7, 7, 1, 4, 16, 4}}},
};
inline constexpr int kNetCount = sizeof kNets / sizeof *kNets;

// A layer, and the frame that it reads: bytes of the team's shared memory, of a row, from the first copy to the second;
// columns before the image, and rows; the strips of 16 sums of a row, and how many warps share the rows of one.
struct Layer {
  const void *weights = nullptr; // packed
  const float *bias = nullptr;
  float low = 0, high = 0;                    // the activation's bounds
  int32_t rows = 0, columns = 0, results = 0; // that are used, after pooling; channels
  int32_t frame = 0, row_bytes = 0, second = 0, left = 0, pad[2] = {};
  int32_t strips = 0, shares = 0;
  int32_t words = 0; // of packed weights
};

struct Chain {
  const void *input = nullptr;
  void *result = nullptr;
  int32_t batch = 0, size[2] = {}; // of the input
  int32_t pairs = 0;               // whether rows and images consist of aligned words
  int32_t held = 0;                // whether the next image waits in registers
  Quotient by_words;               // of a row: pairs of pixels, or pixels
  int32_t results = 0;             // elements of an image's result, which waits at:
  int32_t waiting = 0, channel_step = 0, pixel_step = 0;
  int32_t image_bytes = 0, teams = 0;
  Layer layer[kMostLayers];
};

// Of packed weights, before those of a layer.
constexpr int weight_words(const Net &net, int layer) {
  int blocks = 0;
  for (int i = 0; i < layer; ++i) blocks += net.layer[i].blocks();
  return blocks * kBlockWords;
}
// Weights and biases, then the images.
constexpr int common_bytes(const Net &net) {
  return (weight_words(net, net.layers) + net.layers * kBiases) * 4;
}

// The kernel of a net, by its place in kNets, for f16 or bf16.
using Kernel = void (*)(Chain);
template <int Which>
Kernel fused(int32_t type);

} // namespace polyconv::cuda::images
