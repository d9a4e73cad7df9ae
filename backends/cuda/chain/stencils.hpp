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

struct Stencils {
  int32_t rows, columns;             // of the input
  int32_t tiles, strips, strip_rows; // across, down, of a strip
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
struct StencilInstance {
  const void *function;
  int warps; // that fit a multiprocessor
};
struct StencilKernel {
  int sizes[kMostStencils];   // 0 behind the last
  StencilInstance elements;   // one by one, where the image's rows are not vectors of four
  StencilInstance vectors[2]; // by rows ahead
};

// Those for `count` filters; `known` is how many there are.
const StencilKernel *two_stencils(int &known);
const StencilKernel *three_stencils(int &known);
const StencilKernel *four_stencils(int &known);

} // namespace polyconv::cuda::chain
