// weights_plan.hpp - the geometry of depthwise weight gradients with channels side by side, decided at plan time.
//
//   weights[tap][c] = sum over pixels of gradient[pixel][c] * input[pixel at tap][c]
//
// A unit is a group of rows of the gradient and a chunk of their columns. Where the source pixels that it meets lie is
// written down first (pixels.hpp), padding being a pixel like others. Then one vector of channels after another runs
// over the unit, several taps' sums in registers. Nothing is packed. The units are cut into `splits`, a number that
// depends on the problem alone; their sums are added in order afterwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"

namespace polyconv::cpu {

constexpr int64_t kDepthwiseJoin = 16; // channels whose splits are added by one item of work: whole vectors

struct DepthwiseWeightsPlan {
  polyconv_tensor input, gradient, weights;
  Axis axis[3];
  const void *padding;                // `channels` elements of the padding value, as stored in the input
  int64_t taps, channels, row_stride; // sums of a split: [tap][channel up to row_stride]
  int64_t rows, chunk;                // of a unit, at most
  int64_t row_groups, chunks, units, splits;
  int64_t parts;                   // of the channels: items of work are splits by parts
  int64_t lines, line_pixels;      // of the table: source rows of a unit for each tap of D, pixels of each
  int32_t ahead;                   // units follow each other in memory: the next one is fetched early
  int64_t tasks, table_bytes;      // of one task
  int64_t sums_at, split_elements; // in the workspace, behind all tables
};

struct DepthwiseWeightsRun {
  const void *input, *gradient;
  void *weights, *sums;
};

struct DepthwiseWeightsShare {
  int64_t split, part;
  void *table;
};

POLYCONV_ISA_FUNCTION(void, depthwise_weights_sum, const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run,
                      const DepthwiseWeightsShare &share)
POLYCONV_ISA_FUNCTION(void, depthwise_weights_end, const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run,
                      int64_t channel)

} // namespace polyconv::cpu
