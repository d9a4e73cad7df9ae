// spread_plan.hpp - gradients of data of depthwise layers at stride 2 along W, channels side by side: each source pixel
// is spread over the results that it reaches, in one pass. (As convolutions of stride 1 they would be as many passes
// over source and result as there are residues.)
//
// Results lie in pairs, an even and an odd column. Both columns of pair j read the window of sources that begins at
// first + j, the even one its [begin[0], end[0]), the odd one its [begin[1], end[1]); together those are all taps of W.
//
//   for item: image, depth, row of results
//     list the source pixels of the rows of sources that the row reads
//     for tile of 8 or 7 pairs
//       for vector of channels             sums of all pairs: registers
//         for listed row, source of the window: load once for both columns
//         store
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/plan.hpp"
#include "cpu/pass.hpp"

namespace polyconv::cpu {

struct SpreadPlan {
  polyconv_tensor source;
  Epilogue epilogue;
  Axis axis[3];                 // of the layer that goes forward: `in` counts results here, `out` sources
  const void *padding;          // a source pixel of zeros
  int64_t channels, row_stride; // of packed weights: [row of taps][even, odd][source of the window][channel up to it]
  int64_t first, window;        // source of the first pair; sources of a window
  int64_t begin[2], end[2];
  int64_t tile;        // pairs
  int64_t pairs, list; // of a row; pointers of a listed row
  int64_t items, tasks;
  int64_t rows_at, scratch_bytes; // of one task: pointers, rows of taps
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, spread_task, const SpreadPlan &plan, const LayerRun &run, const ItemShare &share)

} // namespace polyconv::cpu
