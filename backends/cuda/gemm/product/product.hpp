// product.hpp - what the host knows of the matrix product (common/implicit.hpp): its operands as a kernel argument,
// tile shapes as configs, and the launch.
//
// Every sum runs over k in order in one accumulator, so that bits depend neither on the tile nor on the batch; where k
// is split, over each split so, and then over the splits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <polyconv/sdk/kernel.hpp>

#include "common/device/check.hpp"
#include "common/epilogue.cuh"
#include "common/implicit.hpp"

namespace polyconv::cuda::gemm {

// How the activations get into shared memory.
enum class Source : int32_t {
  kTaps,      // a block of k lies in one tap; neighbouring threads read neighbouring pixels
  kScattered, // k as it comes, for few channels: each k finds its own tap
  kVectors,   // a block of k lies in one tap; 16 bytes of neighbouring channels at a time
  kRows,      // 1 x 1, channels first: rows of k lie in memory, 16 bytes of neighbouring pixels at a time
  kMatrix     // unfolded before: rows of k, columns of pixels
};

struct Product : ImplicitGemm {
  EveryActivation activations;
  int32_t weights_row = 0; // elements of a row of packed weights: group_out, rounded up to 16 bytes
  int64_t matrix_row = 0;  // kMatrix: elements of a row
  int32_t vectors = 0;     // 16 bytes of the result's channels can be stored at once, and of a residual loaded
  int32_t rows = 0;        // 16 bytes of the result's pixels can be stored at once
};

// Tile shapes: pixels x channels x depth of a block, the pixels x channels that a thread sums, and the blocks of k that
// shared memory holds.
template <int Pixels, int Channels, int Depth, int ThreadPixels, int ThreadChannels, int Stages = 3>
struct Tile {
  static constexpr int pixels = Pixels, channels = Channels, depth = Depth;
  static constexpr int thread_pixels = ThreadPixels, thread_channels = ThreadChannels, stages = Stages;
  // A warp is 8 threads of pixels by 4 of channels.
  static constexpr int warp_pixels = 8 * ThreadPixels, warp_channels = 4 * ThreadChannels;
  static constexpr int warps_along = Pixels / warp_pixels;
  static constexpr int threads = 32 * warps_along * (Channels / warp_channels);
};

struct Shape {
  int32_t pixels, channels, depth, threads, blocks; // blocks that share a multiprocessor
  double efficiency;  // of the FMA rate that a large matrix product reaches, when every multiprocessor has its blocks
  double windows = 1; // so many times as long where there are several taps
};
enum { k128x256x16, k256x128x16, k128x64x16, k64x64x16, k128x32x16, k32x32x16, kTileCount };
// 128 sums a thread: fewer loads from shared memory a product, and fewer warps.
using Tile128x256x16 = Tile<128, 256, 16, 16, 8>;
using Tile256x128x16 = Tile<256, 128, 16, 16, 8>;
// 64 and 32: for few channels or few tiles; 32 x 32 where even those of 64 x 64 are fewer than multiprocessors.
using Tile128x64x16 = Tile<128, 64, 16, 8, 8>;
using Tile64x64x16 = Tile<64, 64, 16, 8, 4>;
using Tile128x32x16 = Tile<128, 32, 16, 8, 4>;
using Tile32x32x16 = Tile<32, 32, 16, 4, 4>;
inline constexpr Shape kShapes[] = {{128, 256, 16, 256, 1, 0.919},      {256, 128, 16, 256, 1, 0.920},
                                    {128, 64, 16, 128, 3, 0.908, 1.08}, {64, 64, 16, 128, 4, 0.731},
                                    {128, 32, 16, 128, 4, 0.678, 1.06}, {32, 32, 16, 64, 8, 0.57}};
static_assert(sizeof kShapes / sizeof *kShapes == kTileCount, "every tile has a shape");

// Whether there is a kernel for a type in a tile: every tile for f32, two for f64, and for f16 and bf16, which are for
// the tensor cores wherever there are such, the smallest that any layer fits.
inline bool has_tile(int32_t type, int tile) {
  if (type == POLYCONV_F32) return true;
  return tile == k64x64x16 || (type == POLYCONV_F64 && tile == k128x64x16);
}

// Bytes of an element of packed weights and sums.
inline int64_t sum_bytes(int32_t type) {
  return type == POLYCONV_F64 ? 8 : 4;
}

// Whether 16 bytes of neighbouring channels can be moved at once, were the pointer aligned to them; `channels` of them
// belong together.
bool has_vectors(const polyconv_tensor &tensor, int64_t channels);

// Likewise of neighbouring pixels, which lie one after the other in runs of whole 16 bytes.
bool has_pixel_vectors(const polyconv_tensor &tensor);
// Whether the input is such rows of k.
bool reads_rows(const polyconv_layer &layer);

// The geometry of a layer and the pointers of a run, but for the activations'.
Product make_product(const polyconv_layer &layer, const polyconv_arguments &arguments);

// What every kernel here asks first: one forward layer of floats without pooling that fits; else rejects in words.
bool takes(const polyconv_request &request, sdk::Offer &offer);

int64_t packed_bytes(const polyconv_layer &layer);
const char *packed_format(const polyconv_layer &layer);
void pack_weights(const polyconv_layer &layer, const void *raw, void *packed, cudaStream_t stream);

// Microseconds of `layer` in a tile, its activations from a source, with k split or not; without what adds the partial
// sums.
double product_us(const polyconv_layer &layer, const Shape &shape, Source source, int splits = 1);

// Split k: microseconds of adding the partial sums (common/partials.cuh), and the kernel that does.
double partials_us(const polyconv_layer &layer, int splits);
void add_splits(const polyconv_layer &layer, const Product &product, cudaStream_t stream);

// The kernel of a type (of `input` as stored), source and tile; `prepare` lets it use its shared memory.
struct Launcher {
  void (*prepare)();
  void (*launch)(const Product &product, cudaStream_t stream);
  int32_t shared_bytes; // of a block
};
template <class From>
Launcher product_of(int tile, Source source);
// 64 x 64 gives the same bits where a tile needs more shared memory than the device lends a block: the large ones on
// chips of 7.5, which have 64 KiB.
Launcher find_product(int32_t type, int tile, Source source, int device);

} // namespace polyconv::cuda::gemm
