// plan.hpp - the geometry of the shifted kernel, decided at plan time and read by every pass.
//
// A block of result rows, or of a part of their columns, reads one strip: of every channel the source rows that it
// needs, converted and padded, one after the other without gaps. Results are numbered through the strip as its elements
// are, so that tap (r, s) of result q reads element q + r * pitch + s: a whole vector wherever it begins, the same
// distance from the one beside it. The few results of each row that lie in the padding are computed in vain and not
// stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

struct ShiftedPlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  double pad_value;
  int32_t direct; // f32 results side by side, at most a bias and a quick activation: stored by the tile

  int64_t images, depth, groups, channels, filters; // channels and filters of a group
  int64_t panels;                                   // of the filters of a group, of nearly equal size
  int64_t width, height;                            // of a plane of results
  int64_t block_rows, row_blocks, block_columns, column_blocks, items; // no row_blocks: no strip fits
  Grid grid;                                                           // items by one

  int64_t reach;             // source columns of a result beyond the first
  int64_t shared;            // of a whole row's padding, elements that are the next row's too
  int64_t pitch, strip_rows; // elements between rows of the strip; rows of a channel, at most
  int64_t channel_elements;  // of the strip
  int64_t taps;
  const int64_t *tap;             // element offset of each in the strip
  int64_t sums_at, scratch_bytes; // of one task
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, shifted_task, const ShiftedPlan &plan, const LayerRun &run, const GridShare &share)

} // namespace polyconv::cpu
