// plan.hpp - the geometry of depthwise convolution with channels side by side, decided at plan time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/axis.hpp"
#include "cpu/epilogue.hpp"

namespace polyconv::cpu {

constexpr int kDepthwiseChunk = 128;   // columns whose sums are kept together where tiles do not store results
constexpr int64_t kDepthwiseUnit = 16; // channels of packed weights come in whole units of

struct DepthwisePlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  int32_t zero_point;
  int32_t direct;               // f32 results side by side, at most a bias and a quick activation: stored by the tile
  int64_t channels, row_stride; // of packed weights: [tap][channel up to row_stride]
  int64_t inner, inner_end;     // columns all of whose taps lie inside
  const void *padding;          // `channels` elements of the padding value, as stored in the input
  int64_t rows;                 // of results: image, depth, row
  int64_t tasks;
  int64_t sums_at, scratch_bytes; // of one task: terms, sums
  double estimate_us;
};

struct DepthwiseRun {
  Epilogue epilogue; // with pointers
  const void *input, *weights;
  int32_t stream; // results are too many for the cache and aligned
};

struct DepthwiseShare {
  int64_t first, last; // rows
  char *scratch;
};

} // namespace polyconv::cpu
