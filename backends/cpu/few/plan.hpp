// plan.hpp - the geometry of the kernel for few filters, decided at plan time and read by every pass.
//
// Input channels lie along the vectors: a tile multiplies the pixels of several results by every filter, vector by
// vector of channels, and adds up the lanes of its sums at the end. Where each source pixel of a chunk of columns lies
// is written down first; padding is a pixel of its own. A sum runs over taps and channels lane by lane, then over the
// lanes, in an order that depends on the instruction set alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

constexpr int kFewFilters = 8; // of a group, at most

// Pixels of a register tile, by the number of filters: what 32 and 16 vector registers hold beside a pixel and the
// weights, and no more than 8, each of which needs an address register.
constexpr int kFewPixels[2][kFewFilters + 1] = {{0, 8, 4, 4, 2, 2, 2, 1, 1}, {0, 8, 8, 8, 4, 4, 4, 2, 2}};
constexpr int64_t kFewChunk = 128; // columns of results whose source pixels are listed at once

struct FewPlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  int32_t direct; // f32 results, pixel behind pixel, at most a bias and a quick activation: stored by the tile
  int64_t groups;
  int64_t channels, filters;  // of a group
  int64_t group_weights;      // elements: [tap][vector of channels][filter][lane]
  const void *padding;        // a pixel of the padding value, as stored in the input
  int64_t lines, line_pixels; // of the list of pixels: taps of D and H, pixels that a chunk reads of each
  int64_t chunks, items;      // of a row; rows of all images by chunks
  int64_t tasks;
  int64_t sums_at, scratch_bytes; // of one task: list, sums of a chunk
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, few_task, const FewPlan &plan, const LayerRun &run, const ItemShare &share)

} // namespace polyconv::cpu
