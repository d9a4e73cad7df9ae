// mma.hpp - what the host knows of the matrix product by mma.sync: its operands as a kernel argument, tile shapes as
// configs, packing, estimate and launch.
//
// k goes in chunks of 16 bytes, each the neighbouring channels of one tap, the last chunk of a tap filled with zeros;
// four chunks are a block of k. Every sum runs over the blocks in order, so that bits depend neither on the tile nor on
// the batch, nor on how the activations got into shared memory; where k is split, over each split so, then over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <polyconv/sdk/kernel.hpp>

#include "common/implicit.hpp"

namespace polyconv::cuda::tensor {

inline constexpr int kChunk = 16, kBlockChunks = 4, kRow = kChunk * kBlockChunks; // bytes, chunks, bytes

// How activations get into shared memory.
enum class Source : int32_t {
  kVectors, // a chunk is 16 neighbouring bytes: copied as it is
  kGathered // element by element through registers; neighbouring threads read neighbouring pixels
};

struct MmaProduct : ImplicitGemm {
  int32_t blocks = 0;       // of k
  int32_t chunks = 0;       // of a tap
  int32_t weights_rows = 0; // of a block of packed weights: group_out, rounded up to 8
  int32_t whole_vectors = 0; // 1: 16 bytes of the result's channels can be stored at once
};

// Tile shapes: pixels x channels of a block and of each of its warps, the stages that shared memory holds, and the blocks
// that share a multiprocessor.
template <int Pixels, int Channels, int WarpPixels, int WarpChannels, int Stages, int Blocks>
struct MmaTile {
  static constexpr int pixels = Pixels, channels = Channels, stages = Stages, blocks = Blocks;
  static constexpr int warp_pixels = WarpPixels, warp_channels = WarpChannels;
  static constexpr int warps_along = Pixels / WarpPixels;
  static constexpr int threads = 32 * warps_along * (Channels / WarpChannels);
};

struct MmaShape {
  int32_t pixels, channels, blocks;
};
enum { k256x128, k128x128, k128x128w8, k128x64, k64x64, kTileCount };
// A warp of 64 x 64 loads 4 KiB for 2^16 products: half of what shared memory gives while they are computed. 64 x 32
// leave registers to gather with.
using Mma256x128 = MmaTile<256, 128, 64, 64, 4, 1>;
using Mma128x128 = MmaTile<128, 128, 64, 64, 4, 2>;
using Mma128x128w8 = MmaTile<128, 128, 64, 32, 4, 1>;
using Mma128x64 = MmaTile<128, 64, 64, 32, 4, 2>;
using Mma64x64 = MmaTile<64, 64, 32, 32, 4, 4>;
inline constexpr MmaShape kMmaShapes[] = {{256, 128, 1}, {128, 128, 2}, {128, 128, 1}, {128, 64, 2}, {64, 64, 4}};
static_assert(sizeof kMmaShapes / sizeof *kMmaShapes == kTileCount, "every tile has a shape");

// Whether a tile gathers; every tile copies vectors.
inline constexpr bool gathers(int tile) {
  return tile == k128x128w8 || tile == k128x64 || tile == k64x64;
}

// The geometry of a layer and the pointers of a run.
MmaProduct make_mma_product(const polyconv_layer &layer, const polyconv_arguments &arguments);

// What the activations of a layer allow, were their pointer aligned to 16 bytes.
Source preferred_source(const polyconv_layer &layer);

// Packed weights: for each group and block of k, rows of 64 bytes, one a channel.
int64_t mma_packed_bytes(const polyconv_layer &layer);
const char *mma_packed_format(const polyconv_layer &layer);
void mma_pack(const polyconv_layer &layer, const void *raw, void *packed, cudaStream_t stream);
int64_t mma_blocks(const polyconv_layer &layer); // of k

// Microseconds of a layer in a tile, with k split or not, the sum over the splits included.
double mma_us(const polyconv_layer &layer, int tile, Source source, int splits);

// The kernel of a type (of `input` as stored), tile and source; `prepare` lets it use its shared memory.
struct MmaLauncher {
  void (*prepare)();
  void (*launch)(const MmaProduct &product, cudaStream_t stream);
};
MmaLauncher mma_half(int tile, Source source);
MmaLauncher mma_bf16(int tile, Source source);

} // namespace polyconv::cuda::tensor
