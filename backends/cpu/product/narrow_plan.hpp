// narrow_plan.hpp - the geometry of weight gradients of narrow groups, decided at plan time and read by every pass.
//
//   weights[k][c][tap] = sum over pixels of gradient[pixel][k] * input[pixel at tap][c]
//
// One side's channels of a group lie along a vector, the other side's come one by one: an outer product at each pixel,
// read where both tensors lie, with the sums of one tap in registers. "Along" are the output channels, or the input's
// where that fills vectors better (few filters). Where a group fills no more than half a vector, a vector is of several
// groups, and each lane picks its own group's channel of the other side.
//
// A unit is a few hundred pixels: rows of the output, or a part of one. The units are cut into `splits`, a number that
// depends on the problem alone; their sums are added in order afterwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/product/plan.hpp"

namespace polyconv::cpu {

constexpr int kNarrowMostLanes = 16;

struct NarrowPlan {
  polyconv_tensor input, gradient, weights;
  Axis axis[3];
  const AxisOutputs *inside[3]; // per tap of each axis: outputs that it meets inside the input
  int32_t turned;               // along the vectors lie input channels
  int64_t groups, group_out;
  int64_t along, across;                // channels of a group: along a vector, and one by one
  int64_t vector_groups, group_vectors; // groups of a vector; vectors of a group, where it has one or more of its own
  int64_t vectors, piece;               // of all groups; channels across that meet a vector at once
  int32_t picks[kNarrowMostLanes];      // of each lane of a vector of several groups the first channel across
  int64_t taps;
  int64_t rows, row_groups, columns, chunks; // of the output in a unit; units of a plane
  int64_t units, splits;
  int64_t parts, tasks;                    // items of work are splits by parts of the vectors
  int64_t vector_elements, split_elements; // of sums: [vector][tap][across][lane]
  const ProductColumn *table;              // of (across, tap), in the order of the weights
};

struct NarrowRun {
  const void *input, *gradient;
  void *weights;
  float *sums;
};

struct NarrowShare {
  int64_t split, part; // part: of a join the vector
};

POLYCONV_ISA_FUNCTION(void, narrow_weights_sum, const NarrowPlan &plan, const NarrowRun &run, const NarrowShare &share)
POLYCONV_ISA_FUNCTION(void, narrow_weights_end, const NarrowPlan &plan, const NarrowRun &run, int64_t vector)

} // namespace polyconv::cpu
