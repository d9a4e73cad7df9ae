// plan.hpp - the geometry of Winograd's convolution of 3 x 3 filters, decided at plan time and read by every pass.
//
//   results of a tile = A' [ (G filter G') . (B' inputs of the tile B) ] A        . element by element
//
// A tile of M x M results needs (M + 2)^2 products a pair of channels instead of 9 M^2: 4 instead of 9 a result at M =
// 2, 2.25 at M = 4. Element by element and summed over the input channels they are (M + 2)^2 matrix products, [tiles x
// input channels] by [input channels x output channels], which run on the dense kernel's register tile.
//
// Tiles of all images are counted in one row and cut into blocks, whose transforms stay in the second cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

struct WinogradPlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  double pad_value;
  int32_t inputs_along, results_along; // channels side by side; else columns

  int64_t channels, results;       // input and output channels
  int64_t padded_channels;         // to whole vectors
  int64_t panel, panels;           // output channels of a packed panel, and panels
  int64_t tile_rows, tile_columns; // of an image
  int64_t tiles, block, blocks;    // of the batch; of a block; blocks
  int64_t tasks;
  int64_t products_at, patch_at, rows_at, scratch_bytes; // of a task; transformed inputs come first
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, winograd_task2, const WinogradPlan &plan, const LayerRun &run, const ItemShare &share)
POLYCONV_ISA_FUNCTION(void, winograd_task4, const WinogradPlan &plan, const LayerRun &run, const ItemShare &share)

} // namespace polyconv::cpu
