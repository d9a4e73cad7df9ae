// weights_plan.hpp - weight gradients of one tap as a product of two tensors that are read where they lie.
//
//   weights[k][c] = sum over pixels of gradient[pixel][k] * input[pixel][c]
//
//   for a block of pixels                     input and gradient of it: the L2 cache
//     for a panel of 2 vectors of inputs      256 pixels of it: the L1 cache
//       for 14 output channels                sums: registers, between blocks the weights themselves
//         for a pixel                         2 vectors loaded, 14 elements broadcast
//
// The order of each sum, pixels as they lie, is a function of problem and config alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"
#include "cpu/pass.hpp"

#include <polyconv/backend.h>

namespace polyconv::cpu {

// Pixels at one stride; elements from the tensors' first.
struct PointRun {
  int64_t input, gradient, count;
};

struct PointWeightsPlan {
  int32_t type;                      // of all three tensors: f32 or f64
  int64_t inputs, outputs;           // channels; of a window as large as the image, elements of one filter
  int64_t input_step, gradient_step; // elements between pixels of a run
  int64_t input_at, gradient_at;     // the tensors' first elements
  int64_t weights_at, filter;        // the first weight, and from filter to filter
  int64_t rows;                      // output channels of a tile
  int64_t lanes;                     // of a vector
  const PointRun *runs;              // all pixels, in order
  const int64_t *blocks;             // the first run of each block, and behind the last
  int64_t block_count;
  Grid grid; // tiles' rows by panels
};

POLYCONV_ISA_FUNCTION(void, point_weights_task, const PointWeightsPlan &plan, const WeightsRun &run,
                      const GridShare &share)

} // namespace polyconv::cpu
