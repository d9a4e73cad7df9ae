// plan.hpp - the geometry of depthwise convolution with channels side by side, decided at plan time.
//
// A tile is a few rows by a few columns of results, all channels of it. Where each source pixel of a chunk of columns
// lies is written down first, as a table of pointers; padding is a pixel of its own. So no tile knows about borders.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/axis.hpp"
#include "cpu/epilogue.hpp"

namespace polyconv::cpu {

constexpr int kDepthwiseRows = 2;        // of results in an unrolled tile
constexpr int kDepthwiseWide = 7;        // columns where registers allow: image networks' sizes are its multiples
constexpr int kDepthwiseNarrow = 2;      // at stride 2 beyond the second cache: nearer to the order of memory
constexpr int64_t kDepthwiseChunk = 112; // columns of results whose source pixels are looked up at once
constexpr int64_t kDepthwiseUnit = 16;   // channels of packed weights come in whole units of
constexpr int64_t kDepthwiseBlock = 512; // channels at a time, about, so that weights and sums stay in the first cache
constexpr int64_t kDepthwiseSums = kDepthwiseBlock + kDepthwiseUnit; // a block at most

struct DepthwisePlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  int32_t zero_point;
  int32_t direct;               // f32 results side by side, at most a bias and a quick activation: stored by the tile
  int32_t square;               // 3 or 5: unrolled; 0: any kernel, a row at a time
  int32_t ahead;                // the input is larger than the second cache: fetch the rows of the next group early
  int64_t channels, row_stride; // of packed weights: [tap][channel up to row_stride]
  int64_t blocks;               // of channels, nearly equal: whole vectors but in the last
  const void *padding;          // `channels` elements of the padding value, as stored in the input

  int64_t tile_rows, tile_columns; // of results
  int64_t lines, line_pixels;      // of the table of pointers: source rows of a tile, pixels of a chunk
  int64_t row_groups, items;       // items: image, depth, group of tile_rows rows
  int64_t tasks;
  int64_t sums_at, scratch_bytes; // of one task: table, sums
  double estimate_us;
};

struct DepthwiseRun {
  Epilogue epilogue; // with pointers
  const void *input, *weights;
  int32_t stream; // results are too many for the cache and aligned
};

struct DepthwiseShare {
  int64_t first, last; // items
  char *scratch;
};

} // namespace polyconv::cpu
