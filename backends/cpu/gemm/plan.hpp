// plan.hpp - the geometry of a convolution as a matrix product, decided at plan time and read by every pass: what lies
// along the vectors, block sizes, shares of the tasks, and how coordinates become addresses.
//
//   result[output channel][pixel] = sum over k of weights[output channel][k] * activation[k][pixel]
//
// k counts taps (d, r, s), then the group's input channels. One of the two outer axes lies along the vectors, the other
// is the rows of a register tile: output channels as a rule where the result has its channels side by side (channels
// last), pixels where it has its pixels side by side (channels first), so that results are stored as they are
// computed. Small images have their channels along the vectors in either layout: fewer lanes stay idle.
//
// Every sum runs over k in order, in blocks of k_block: a function of problem and config alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/epilogue.hpp"

namespace polyconv::cpu {

constexpr int kGemmBlockPixels = 256; // most pixels packed together

enum class GemmArithmetic : int32_t { kF32, kF64, kPairs }; // pairs: two 16-bit integers a 32-bit element, s32 sums

// One spatial axis: how an input coordinate, inside or outside the tensor, becomes an element offset.
struct GemmAxis {
  int64_t size, stride;           // of the input tensor
  int64_t step, dilation, before; // convolution stride, dilation, padding before
  const int64_t *left, *right; // offsets of coordinates -1, -2, ... and size, size + 1, ...; -1 for the padding value
};

struct GemmPlan {
  polyconv_tensor input;
  Epilogue epilogue;
  GemmArithmetic arithmetic;
  int32_t channels_along; // 1: output channels along the vectors, 0: pixels
  int32_t zero_point;     // subtracted from quantised inputs
  double pad_value;
  GemmAxis axis[3];
  const int64_t *inside; // per tap s: first and last + 1 output column whose input column lies inside

  int64_t groups, group_in, group_out;
  int64_t taps[3], out[3];
  int64_t images, image_pixels, pixels; // pixels = images * image_pixels
  int64_t channel_elements;             // elements of one tap: group_in, or its half rounded up for pairs
  int64_t k, k_block;                   // elements of the reduction

  int64_t tile_rows, tile_columns;   // of a register tile, elements
  int64_t vector;                    // elements of a vector
  int64_t panel_channels;            // output channels a panel of packed weights holds
  int64_t panels;                    // panels of a group
  int64_t pixel_unit;                // pixels are shared in whole units of
  int64_t tile_pixels, block_pixels; // pixels of a register tile, and of a packed block
  int64_t row_stride;                // elements between the rows of packed activations (channels along)

  int64_t pixel_parts, panel_parts; // tasks = pixel_parts * panel_parts
  int64_t packed_bytes;             // of one task's packed activations
  int64_t sums_bytes;               // of one task's unfinished sums, 0 where one block of k is all
  double estimate_us;
};

// What one task computes.
struct GemmShare {
  int64_t first_pixel, last_pixel; // [first, last)
  int64_t first_panel, last_panel; // of groups * panels
  void *packed, *sums;             // its scratch
};

// What one run adds.
struct GemmRun {
  Epilogue epilogue; // with pointers
  const void *input, *weights;
};

} // namespace polyconv::cpu
