// stencils.hpp - how cuda-chain/stencils cuts images: strips of rows, each marched down by tiles of a warp's columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/instance.hpp"

namespace polyconv::cuda::chain {

inline constexpr int kMostStencils = 4, kMostStencilTaps = 100; // of all layers together

// One filter.
struct StencilLayer {
  int32_t rows, columns;  // of its output
  int32_t pad;            // rows above
  int32_t shift;          // the output column that a lane's register holds, less the chain's input column that it held
  int32_t relu, finishes; // whether there is a relu; that or a bias
  const float *bias;      // NULL where there is none
  float padding;          // what the next layer finds outside this one's output
};

// How tiles are cut into strips: `times` as many rows as a kernel's loop takes are shared out, and each strip has as
// many more as filters wait for others.
struct StencilStrips {
  int32_t strips, times;
  int32_t spared; // what the first and the last strip, which pad, have less than their share
};

struct Stencils {
  int32_t rows, columns;             // of the input
  int32_t tiles;                     // across
  StencilStrips outer, inner;        // of the first and last tile; of those between
  int32_t skip_left, step;           // columns that a tile leaves to its neighbour, and that it moves on by
  int32_t input_row, result_row;     // elements from row to row
  int64_t input_image, result_image; // from image to image
  int32_t input_offset, result_offset;
  float padding;    // around the input
  int32_t finishes; // whether any layer has a bias or relu
  StencilLayer layer[kMostStencils];
  float weights[kMostStencilTaps];
};

// The kernels for filters of certain sizes.
struct StencilKernel {
  int sizes[kMostStencils]; // 0 behind the last
  const void *vectors;      // where the image's rows are vectors of four
  const void *elements;     // one by one
  int warps;                // that fit a multiprocessor
  int ahead;                // rows that a lane loads ahead, and that a strip's loop takes at once
  int lead;                 // steps of the loop that those before a strip's first result take as long as
};

// Those for 2 to 4 filters; `known` is how many there are.
template <int count>
const StencilKernel *stencils_of(int &known);

} // namespace polyconv::cuda::chain
