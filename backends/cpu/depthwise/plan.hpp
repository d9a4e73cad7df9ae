// plan.hpp - the geometry of depthwise convolution with channels side by side, decided at plan time.
//
// A group of rows of results is swept column by column, one vector of channels at a time. Where each source pixel of a
// chunk of columns lies is written down first, as a table of pointers; padding is a pixel of its own. So no sweep knows
// about borders. Sums run over the columns of the kernel, each from top to bottom, whatever the group's height.
//
// Groups of few channels (grouped.cpp) go the same way, every channel of a group before the next row or column.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

// Rows of results that are swept together: what the registers of AVX-512 hold for 3 x 3 and stored f32, for the rest,
// and what those of older CPUs hold. Tall ones load less twice; heights of image networks are multiples of 7.
constexpr int kDepthwiseTall = 7, kDepthwiseRows = 4, kDepthwiseFew = 2;
constexpr int kDepthwiseNine = 7, kDepthwiseNineApart = 4; // columns of a tile of nine weights at stride 1 and 2
constexpr int kDepthwiseWalk = 2;                          // rows of results of a walk
constexpr int kDepthwisePair = 2; // rows of results of a tile that shares what it loads between them
// Columns of a tile where the kernel is not unrolled: the ones that waste least of a row, as images are 7 and 14 wide.
constexpr int kDepthwiseWide = 8, kDepthwiseSeven = 7, kDepthwiseColumns = 4;
constexpr int kDepthwiseTaps = 4;         // of a row of taps, whose weights stay in registers for a tile
constexpr int kGroupedAhead = 4;          // columns of results whose source a sweep of groups fetches early
constexpr int kGroupedColumns = 8;        // likewise, where there are groups and so many columns
constexpr int64_t kDepthwiseSweep = 14;   // columns of a sweep whose sums wait for their epilogue
constexpr int64_t kDepthwiseChunk = 112;  // columns of results whose source pixels are looked up at once
constexpr int64_t kDepthwiseAhead = 4096; // bytes: how far ahead a walk fetches
constexpr int64_t kDepthwiseUnit = 16;    // channels of packed weights come in whole units of
constexpr int64_t kDepthwiseBlock = 128;  // channels at a time, about, so that weights and sums stay in the first cache
constexpr int64_t kDepthwiseSums = kDepthwiseBlock + 2 * kDepthwiseUnit; // a block at most

// Which row of taps a source row meets for the first and the second row of results of a tile; -1: none.
struct DepthwiseLine {
  int32_t first, second;
};

struct DepthwisePlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  int32_t zero_point;
  int32_t direct;               // results side by side, at most a bias and a quick activation: stored by the tile
  int32_t narrow;               // these are of 16 bits, as the input is
  int32_t square;               // 3 or 5: unrolled; 0: any kernel, a row at a time
  int32_t ahead;                // the input is larger than the second cache: fetch the rows of the next group early
  int32_t near;                 // taps of a row are neighbours, at stride 1 or 2, of a type that tiles take
  int32_t skips;                // rows of zero padding are left out
  int32_t nine;                 // few registers, f32: 3 x 3 whose weights stay in registers (nine.hpp)
  int32_t twins;                // few registers, f32: tiles of two vectors of channels instead of sweeps
  int32_t scales;               // one tap, whole vectors, stored by the tile: pixel by pixel
  int32_t walks;                // stride 2 beyond the caches: column by column with all channels, not sweep by sweep
  int64_t channels, row_stride; // of results; of packed weights: [tap][channel up to row_stride]
  int32_t grouped;              // several channels or filters a group; packed weights: [unit][tap][group_in][channel]
  int64_t group_in;             // channels that a result reads
  const int32_t *sources;       // of each channel of results up to row_stride the first that it reads, where grouped
  int64_t blocks, parts;        // of channels, nearly equal: whole units but in the last; parts are blocks of an item
  const void *padding;          // a pixel of the padding value, as stored in the input

  int64_t tile_rows, tile_columns; // of results, at once
  int64_t lines, line_pixels;      // of the table of pointers: source rows of a tile, pixels of a chunk
  int64_t row_groups, items;       // items: part of the channels, image, depth, group of tile_rows rows
  int64_t tasks;
  int64_t rows_at, sums_at, scratch_bytes; // of one task: table, its rows of taps, sums
  double serial_us;                        // of one thread, tensors in the cache
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, depthwise_task, const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share)
POLYCONV_ISA_FUNCTION(void, grouped_task, const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share)

} // namespace polyconv::cpu
