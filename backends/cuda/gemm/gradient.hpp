// gradient.hpp - what the host knows of the matrix product for the gradient of weights: dw[column][filter] = sum over
// pixels of x[window of pixel, column] * dy[pixel][filter], where columns count taps, then the group's input channels.
// common/pieces.cuh says how the blocks of depth, of pixels, are shared out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pieces.cuh"
#include "product.hpp"

namespace polyconv::cuda::gemm {

// How both factors get into shared memory.
enum class Reach : int32_t {
  kPixels,  // neighbouring threads read neighbouring pixels
  kColumns, // neighbouring threads read neighbouring channels
  kVectors  // 16 bytes of neighbouring channels at a time
};

// A factor: windows of a tensor, whose columns are taps, then channels.
struct Factor {
  const void *data = nullptr; // of the tensor's first element
  int64_t image_stride = 0;
  int32_t channels = 0, columns = 0; // of a group
  int32_t channel_stride = 0, stride[3] = {}, size[3] = {};
  int32_t taps[3] = {1, 1, 1}, step[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {};
  int32_t pad_mode = POLYCONV_PAD_ZERO;
  float fill = 0; // padding with a constant
};

struct Gradient {
  Factor x, y;
  View<int64_t> weights; // what is written
  void *result = nullptr;
  int32_t result_type = 0, groups = 1;
  int32_t pixels = 0;
  int32_t out[3] = {};
  float *pieces = nullptr;
  Shares shares = {};
  int32_t column_tiles = 0, filter_tiles = 0;
};

inline constexpr int kGradientDepth = 16; // of every tile

// Tiles, columns x filters; threads of 8 x 8 sums, and of 8 x 4: both factors are gathered, which takes registers.
enum { kGradient128x128, kGradient128x64, kGradient64x64, kGradientTileCount };
using GradientTile128x128 = Tile<128, 128, 16, 8, 8>;
using GradientTile128x64 = Tile<128, 64, 16, 8, 8>;
using GradientTile64x64 = Tile<64, 64, 16, 8, 4>;
inline constexpr Shape kGradientShapes[] = {
    {128, 128, 16, 256, 1, 0.75}, {128, 64, 16, 128, 2, 0.5}, {64, 64, 16, 128, 3, 0.65}};

// The geometry of a layer in a shape; tiles are columns x filters, which shapes call pixels x channels.
Gradient make_gradient(const polyconv_layer &layer, const Shape &shape);
int64_t pieces_bytes(const Gradient &gradient, const Shape &shape);

// The kernels of a type (of the input as stored); `launch` writes the pieces and adds them.
struct GradientLauncher {
  void (*prepare)();
  void (*launch)(const Gradient &gradient, cudaStream_t stream);
};
GradientLauncher gradient_f32(int tile, Reach reach);
GradientLauncher gradient_half(int32_t type, Reach reach); // 64 x 64

} // namespace polyconv::cuda::gemm
