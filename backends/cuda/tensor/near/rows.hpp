// rows.hpp - what the host knows of the Hopper product over rows of images: its geometry as a kernel argument,
// and the launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

inline constexpr int kRowsChannels = 128;                     // of a tile: two warpgroups' products of 64 rows
inline constexpr int kRowsLastColumns = 192;                  // of products in the last round
inline constexpr int kRowsTapBytes = kRowsChannels / 2 * 128; // a warpgroup's weights of a tap and block of depth

struct RowsProduct {
  CUtensorMap input, weights, results, last_results; // first: they are aligned to 64 bytes
  const float *bias = nullptr;
  int32_t channels = 0, channel_tiles = 0;
  int32_t bands = 0, pixel_tiles = 0; // tiles down an image, of all images
  int32_t rows = 0, pitch = 0;        // of a tile: rows of outputs, and outputs of a row
  int32_t taps[2] = {}, dilation[2] = {}, pad[2] = {};
  int32_t depth_blocks = 0;                // of 64 input channels
  int32_t patch_rows = 0, patch_bytes = 0; // a tile's rows with their halo above and below
  int32_t patch_slot = 0, patch_slots = 0; // its bytes of shared memory; how many there are
  int32_t stages = 0;                      // of each warpgroup's weights
  int32_t columns = 0;                     // of products
  int32_t shared = 0;                      // two blocks of a cluster fetch half a patch each, for both
  int32_t relu = 0;
  int32_t new_weights = 0; // as Product's
  int32_t blocks = 0, turns = 0;
  // The last round of blocks, where many would stay without a tile, has tiles of fewer rows: from `turn` on those of an
  // image from its row `h` on, `first_bands` of them, then whole images'. Without rows, there is no such round.
  struct Last {
    int32_t turn = 0, rows = 0;
    int32_t image = 0, h = 0, first_bands = 0, bands = 0;
  } last;
};

// The geometry of a layer for products of so many columns; without stages where it does not fit.
RowsProduct rows_product(const polyconv_layer &layer, int columns, int multiprocessors);
int rows_shared_bytes(const RowsProduct &product);

void prepare_rows(const RowsProduct &product, bool bf16);
void launch_rows(const RowsProduct &product, bool bf16, cudaStream_t stream);

} // namespace polyconv::cuda::wgmma
