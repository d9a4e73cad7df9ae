// weights_plan.hpp - the geometry of weight gradients, decided at plan time and read by every pass.
//
//   weights[k][c][t] = sum over images and outputs o of gradient[k][o] * input[c][what o reads through t]
//
// A piece owns a block of output channels and a block of input channels; it walks through units (a block of output rows
// of one image) in order, with input rows in scratch as the gather has them (plan.hpp). Where pieces are few, the units
// are cut into `splits`, a number that depends on the problem alone; partial sums are added in order afterwards.
//
// Output channels lie along the vectors where they fill them; else W does, and each sum is a vector until the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/bias/plan.hpp"
#include "cpu/direct/plan.hpp"
#include "cpu/pass.hpp"

namespace polyconv::cpu {

constexpr int kMostPairs = 32; // output rows of a unit

struct WeightsPlan {
  DirectPlan rows; // how input rows come into scratch: a forward gather whose `reduce` is the channel block
  polyconv_tensor gradient, weights;
  int32_t channels_along;

  int64_t group_out, group_in;         // channels of a group
  int64_t k_block, k_blocks, k_stride; // output channels of a piece; elements of a gradient pixel (channels along)
  int64_t c_block, c_blocks;           // input channels of a piece
  int64_t gradient_elements;           // of one gradient row in scratch
  int64_t column_elements, sums;       // of the sums of one (channel, tap); of a piece
  int64_t units, splits, pieces;       // units of the whole batch
  int64_t tasks;

  // Scratch of one task after the rows', and the partial sums of all pieces after every task's; offsets in bytes.
  int64_t gradient_at, columns_at, sums_at, scratch_bytes, partial_bytes;

  BiasPlan bias;
  int64_t bias_at; // offset of its partial sums in the workspace
  int64_t workspace_bytes;
  double estimate_us;
};

// One item of work: a piece and its split.
struct WeightsShare {
  int64_t piece, split;
  char *scratch;
  void *sums; // of this split, or scratch where there is only one
};

POLYCONV_ISA_FUNCTION(void, weights_sum, const WeightsPlan &plan, const WeightsRun &run, const WeightsShare &share)
POLYCONV_ISA_FUNCTION(void, weights_join, const WeightsPlan &plan, const WeightsRun &run, int64_t piece, void *partial)

} // namespace polyconv::cpu
