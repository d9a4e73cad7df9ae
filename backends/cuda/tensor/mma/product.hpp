// product.hpp - what the host knows of the matrix product by mma.sync: its operands as a kernel argument, tile shapes
// as configs, packing, estimate and launch.
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

// What is multiplied: the type of the activations, and the bytes of a row of packed weights in a block of k.
enum class Products : int32_t {
  kHalf,     // f16
  kBfloat,   // bf16
  kTf32,     // f32 rounded to TF32
  kEmulated, // f32 as three bf16 each, six products, which leave out what is below 2^-24 of the largest
};
template <class T, int WeightsRow = kRow>
struct ProductsOf {
  using Type = T;
  static constexpr int weights_row = WeightsRow;
};
inline constexpr int kSplitRow = kRow / 2 * 3; // of weights in three bf16 for each f32

// How activations get into shared memory.
enum class Source : int32_t {
  kVectors, // a chunk is 16 neighbouring bytes, and aligned: copied at once
  kWords,   // likewise, but only words of 4 bytes are aligned or whole
  kShifted, // likewise, but elements of 2 bytes begin anywhere: words through registers, shifted
  kGathered // element by element through registers; neighbouring threads read neighbouring pixels
};

struct MmaProduct : ImplicitGemm {
  int32_t blocks = 0;        // of k
  int32_t chunks = 0;        // of a tap
  int32_t weights_rows = 0;  // of a block of packed weights: group_out, rounded up to 8
  int32_t whole_vectors = 0; // 1: 16 bytes of the result's channels can be stored at once
};

// Tile shapes: pixels x channels of a block and of each of its warps, the stages that shared memory holds, and the
// blocks that share a multiprocessor.
template <int Pixels, int Channels, int WarpPixels, int WarpChannels, int Stages, int Blocks>
struct MmaTile {
  static constexpr int pixels = Pixels, channels = Channels, stages = Stages, blocks = Blocks;
  static constexpr int warp_pixels = WarpPixels, warp_channels = WarpChannels;
  static constexpr int warps_along = Pixels / WarpPixels;
  static constexpr int threads = 32 * warps_along * (Channels / WarpChannels);
};
struct MmaShape {
  int32_t pixels, channels, blocks;
  double block_us; // of a block of k, where every multiprocessor has all its blocks
  double ends;     // blocks of k that take the time of what is before and after them
  double waiting;  // how many blocks would keep a multiprocessor half busy
};
enum { k256x128, k128x128, k128x64, k64x64, kTileCount };
// A warp of 64 x 64 loads 4 KiB for 2^16 products: half of what shared memory gives while they are computed. 64 x 32
// leave registers to gather or to split with.
using Mma256x128 = MmaTile<256, 128, 64, 64, 4, 1>;
using Mma128x128 = MmaTile<128, 128, 64, 64, 4, 2>;
using Mma128x64 = MmaTile<128, 64, 64, 32, 4, 2>;
using Mma64x64 = MmaTile<64, 64, 32, 32, 4, 3>;
inline constexpr MmaShape kMmaShapes[] = {
    {256, 128, 1, 0.58, 8, 0}, {128, 128, 2, 0.295, 7, 0.8}, {128, 64, 2, 0.2, 7, 2.6}, {64, 64, 3, 0.13, 6, 2.5}};
static_assert(sizeof kMmaShapes / sizeof *kMmaShapes == kTileCount, "every tile has a shape");

// The alignment that a source needs of more than elements.
inline constexpr int alignment_of(Source source) {
  return source == Source::kVectors ? kChunk : source == Source::kWords ? 4 : 1;
}

// Whether a tile takes products from a source: those with registers to spare take all.
inline bool has_tile(Products products, int tile, Source source) {
  const bool spare = tile == k128x64 || tile == k64x64;
  return spare || (source == Source::kVectors && products != Products::kEmulated);
}

// The geometry of a layer and the pointers of a run.
MmaProduct make_mma_product(const polyconv_layer &layer, Products products, const polyconv_arguments &arguments);

// What the activations of a layer allow, were their pointer aligned as that needs; wherever it points; and what they
// would if they were dense with the channels last.
Source preferred_source(const polyconv_layer &layer, Products products);
Source unaligned_source(const polyconv_layer &layer);
Source converted_source(const polyconv_layer &layer, Products products);

// Packed weights: for each group and block of k, a row a channel, chunks permuted as they will lie in shared memory.
const char *mma_packed_format(Products products);
int64_t mma_packed_bytes(const polyconv_layer &layer, Products products);
void mma_pack(const polyconv_layer &layer, Products products, const void *raw, void *packed, cudaStream_t stream);
int64_t mma_blocks(const polyconv_layer &layer, Products products); // of k

// Microseconds of a layer in a tile, with k split or not, the sum over the splits included.
double mma_us(const polyconv_layer &layer, Products products, int tile, Source source, int splits);

// The kernel of a tile and source; `prepare` lets it use its shared memory.
struct MmaLauncher {
  void (*prepare)();
  void (*launch)(const MmaProduct &product, cudaStream_t stream);
  int32_t shared_bytes; // of a block
};
template <class T>
MmaLauncher mma_product(int tile, Source source); // f32: rounded to TF32
MmaLauncher mma_emulated(int tile, Source source);
MmaLauncher mma_launcher_of(Products products, int tile, Source source); // that one of them

// ---------------------------------------------------------------- what the kernels share (plan.cu)

// Configs are tiles and splits of k, the same for all products.
inline constexpr int kMmaConfigCount = 10;
extern const char *const kMmaConfigs[kMmaConfigCount];

// Whether products take the type, direction, mode and geometry of a layer; else rejects in words.
bool mma_takes(const polyconv_request &request, Products products, sdk::Offer &offer);

bool mma_supports(const polyconv_request &request, Products products, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> mma_create(const polyconv_request &request, Products products, int32_t config);

// The kernels of one kind of products.
template <Products What>
bool mma_supports_as(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return mma_supports(request, What, config, offer);
}
template <Products What>
std::unique_ptr<sdk::Instance> mma_create_as(const polyconv_request &request, int32_t config) {
  return mma_create(request, What, config);
}

} // namespace polyconv::cuda::tensor
