// gradient.hpp - what the host knows of the matrix product for the gradient of weights: dw[column][filter] = sum over
// pixels of x[window of pixel, column] * dy[pixel][filter], where columns count taps, then the group's input channels,
// or in deep.cuh channels, then taps.
// common/pieces.cuh says how the blocks of depth, of pixels, are shared out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divider.cuh"
#include "common/numbers.hpp"
#include "common/places.cuh"
#include "common/sums/pieces.cuh"
#include "product/product.hpp"

namespace polyconv::cuda::gemm {

// How both factors get into shared memory.
enum class Reach : int32_t {
  kPixels,  // element by element, neighbouring threads read neighbouring pixels
  kColumns, // neighbouring threads read neighbouring channels
  kVectors, // 16 bytes of neighbouring channels at a time
  kDeep     // as kPixels, f32 with zeros around images, and few taps or windows inside them (deep.cuh)
};
// kDeep: whose pixels are read four at a time.
enum class Runs : int32_t { kNone, kOutput, kBoth };

// A factor: windows of a tensor, whose columns are taps, then channels.
struct Factor : PlaceAxes {
  const void *data = nullptr; // of the tensor's first element
  int64_t image_stride = 0;
  int32_t channels = 0, columns = 0; // of a group
  int32_t channel_stride = 0, stride[3] = {};
  int32_t step[3] = {1, 1, 1}, pad[3] = {};
  int32_t pad_mode = POLYCONV_PAD_ZERO;
  float fill = 0; // padding with a constant
};

struct Gradient {
  Factor x, y;
  Divider by_image, by_plane, by_line; // pixels of an image, rows and columns of a plane
  View<int64_t> weights;               // what is written
  void *result = nullptr;
  int32_t result_type = 0, groups = 1;
  int32_t pixels = 0;
  float *pieces = nullptr;
  Shares shares = {};
  int32_t column_tiles = 0, filter_tiles = 0;
  int32_t sharing = 1; // kSharing: the blocks of a cluster share the depth of one tile, the cluster's
};

inline constexpr int kGradientDepth = 16, kDeepDepth = 32; // pixels of a block
inline constexpr int kSharing = 8;                         // blocks of a cluster

// Tiles, columns x filters. Threads of gathered ones have 8 x 8 sums or 8 x 4; of deep ones 16 x 8, 8 x 8 or 4 x 8.
enum {
  kGradient256x128,
  kGradient128x128,
  kGradient128x64,
  kGradient64x64,
  kGradient128x32,
  kGradient128x24,
  kGradient64x32,
  kGradient32x32,
  kGradientTileCount
};
using GradientTile128x128 = Tile<128, 128, 16, 8, 8>;
using GradientTile128x64 = Tile<128, 64, 16, 8, 8>;
using GradientTile64x64 = Tile<64, 64, 16, 8, 4>;

// A tile as a reach has it; 0 threads where it has none.
constexpr Shape gradient_shape(int tile, Reach reach, bool f32) {
  const bool gathered = f32 && reach != Reach::kPixels && reach != Reach::kDeep, deep = reach == Reach::kDeep;
  switch (tile) {
    case kGradient256x128: return deep ? Shape{256, 128, 32, 256, 1, 0.85} : Shape{};
    case kGradient128x128: return gathered ? Shape{128, 128, 16, 256, 1, 0.75} : Shape{};
    case kGradient128x64:
      return deep ? Shape{128, 64, 32, 128, 2, 0.81} : gathered ? Shape{128, 64, 16, 128, 2, 0.5} : Shape{};
    case kGradient64x64: return deep ? Shape{64, 64, 32, 64, 4, 0.76} : Shape{64, 64, 16, 128, 3, 0.65};
    case kGradient128x32: return deep ? Shape{128, 32, 32, 64, 4, 0.67} : Shape{};
    case kGradient64x32: return deep ? Shape{64, 32, 32, 128, 2, 0.7} : Shape{};
    case kGradient32x32: return deep ? Shape{32, 32, 32, 128, 3, 0.565} : Shape{};
    default: return deep ? Shape{128, 24, 32, 64, 4, 0.62} : Shape{};
  }
}

// The geometry of a layer in a shape; tiles are columns x filters, which shapes call pixels x channels. `sharing`: 1,
// or of the smallest shape kSharing, where a tile has as many blocks of depth.
Gradient make_gradient(const polyconv_layer &layer, const Shape &shape, int32_t sharing = 1);
int64_t pieces_bytes(const Gradient &gradient, const Shape &shape);

// The kernels of a type (of the input as stored); `launch` writes the pieces and adds them.
struct GradientLauncher {
  void (*prepare)();
  void (*launch)(const Gradient &gradient, cudaStream_t stream);
  int32_t shared_bytes; // of a block
};
template <class From>
GradientLauncher gradient_of(int tile, Reach reach); // f16 and bf16: 64 x 64
GradientLauncher gradient_deep(int tile, Runs runs);

} // namespace polyconv::cuda::gemm
