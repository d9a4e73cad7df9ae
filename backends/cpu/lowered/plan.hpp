// plan.hpp - the geometry of the lowered kernel, decided at plan time and read by every pass.
//
// Where rows of results are whole vectors, source rows are read where they lie, or from a strip of rows that are
// converted and padded: tap (r, s) shifts them by r rows and s elements. So they are with AVX-512 where nothing has to
// be done to them: a vector that runs over the end of a row is joined from two rows. Other rows are lowered: for each
// source channel and tap of W there is a plane of source rows as wide as the result, shifted by that tap. Results are
// then numbered through the strip without gaps, and tap (r, s) of result q reads element q + r * width of plane s:
// whole vectors wherever rows end. (Along W alone, hence taps of W times the source instead of all taps: Cho and
// Brand's "MEC", 2017.) Rows of a strided H lie in one set of planes for each remainder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/grid.hpp"
#include "cpu/direct/plan.hpp"
#include "cpu/pass.hpp"

namespace polyconv::cpu {

struct LoweredPlan {
  DirectPlan rows; // how a source row becomes numbers in scratch (direct/rows.hpp)
  Epilogue epilogue;
  int32_t joins;    // rows of results are no whole vectors; read where they lie
  int32_t lowers;   // rows of results are no whole vectors; lowered
  int32_t in_place; // source rows are numbers side by side without padding: read where they lie
  int32_t direct;   // f32 results side by side, at most a bias and a quick activation: stored by the tile

  int64_t images, depth, groups, channels, filters; // channels and filters of a group
  int64_t blocks;                                   // of filters, nearly equal, that a tile computes together
  int64_t width, height;                            // of a plane of results
  int64_t strip_rows, strips, items;
  Grid grid; // items by one

  int64_t source_row, source_channel; // elements between source rows and channels, in place or in the strip
  int64_t taps, remainders;           // taps of a plane; remainders modulo the stride of H that any of them reads
  const int64_t *remainder;           // each of them
  const int64_t *source_tap;          // element offset of each tap in the source rows
  const int64_t *tap;                 // and in the planes of a channel
  int64_t lines;                      // rows of a plane
  int64_t source_rows;                // that a strip reads
  int64_t rows_ahead;                 // of a channel, fetched with each tile for the strip that comes next
  int64_t plane_elements, channel_elements;

  int64_t lowered_at, sums_at, scratch_bytes; // of one task: source rows, planes, sums of a tile
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, lowered_task, const LoweredPlan &plan, const LayerRun &run, const GridShare &share)

} // namespace polyconv::cpu
