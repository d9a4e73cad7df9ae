// first.hpp - the Hopper product with channels first, as the host sees it: result[channel][pixel] = sum over depth of
// weights[channel][depth] * activations[depth][pixel], for windows of one element. The pixels of an image are one row,
// in chunks of 64, which the TMA fetches of 64 channels at once. (Windows of more elements would move chunks by a few
// pixels, and the TMA begins at whole 16 bytes alone.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::first {

inline constexpr int kChunk = 64; // pixels

struct FirstProduct {
  CUtensorMap activations, weights, results; // first: they are aligned to 64 bytes
  const float *bias = nullptr;
  int32_t rows = 0, row_tiles = 0;      // output channels, and tiles of them
  int32_t image_chunks = 0, chunks = 0; // of an image, of all
  int32_t tiles = 0;                    // of all
  int32_t depth_blocks = 0;
  int32_t images = 0;
  int32_t relu = 0;
  Divider by_row_tiles = {}, by_image_chunks = {};
};

// A block's tile, output channels x chunks; warpgroups along either; channels of a block of depth.
struct FirstShape {
  int32_t rows, chunks, row_groups, chunk_groups, depth;
};
#define POLYCONV_FIRST_TILES(tile)                                                                    \
  tile(128, 4, 2, 1, 64, "128x256") tile(64, 4, 1, 2, 64, "64x256") tile(128, 2, 2, 1, 64, "128x128") \
      tile(64, 2, 1, 2, 64, "64x128") tile(64, 4, 1, 2, 32, "64x256x32")
#define POLYCONV_FIRST_SHAPE(rows, chunks, row_groups, chunk_groups, depth, name) \
  {rows, chunks, row_groups, chunk_groups, depth},
inline constexpr FirstShape kFirstShapes[] = {POLYCONV_FIRST_TILES(POLYCONV_FIRST_SHAPE)};
inline constexpr int kFirstShapeCount = sizeof kFirstShapes / sizeof *kFirstShapes;

// The layer as the kernels walk it, forward or for its weights: rows of an image that lie one after the other are one
// row.
polyconv_layer in_rows(const polyconv_layer &layer);

// Whether a layer in rows reads windows of one element, and its images and the other tensor's, a result or the output's
// gradient, are whole rows; else it is rejected.
bool takes_rows(const polyconv_layer &layer, const polyconv_tensor &other, sdk::Offer &offer);

// The geometry of a layer in rows, without the maps and the bias.
FirstProduct make_product(const polyconv_layer &layer, const FirstShape &shape);

// The kernel of a shape; `prepare` lets it use its shared memory.
struct FirstLauncher {
  void (*prepare)();
  void (*launch)(const FirstProduct &product, int multiprocessors, cudaStream_t stream);
};
template <class T>
FirstLauncher first_launcher_of(int shape);

} // namespace polyconv::cuda::first
