// plan.hpp - the geometry of the pointwise kernel, decided at plan time and read by every pass.
//
//   result[output channel][pixel] = sum over channels of weights[channel][output channel] * input[channel][pixel]
//
// Pixels lie along the vectors and are read in place, output channels are the rows of a register tile, and the whole
// reduction stays in registers. Each sum runs over the channels in order. Pixels of an image that fill no vector are
// joined with those of the next images: 14 x 14 is 12 vectors, and a quarter of one that four images share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"
#include "cpu/pass.hpp"

namespace polyconv::cpu {

struct PointwisePlan {
  polyconv_tensor input;
  Epilogue epilogue;
  int32_t copies;       // every tile's pixels are copied: many panels read them, from planes that meet in the caches
  int32_t stores_tiles; // tiles go from registers to the result: at most a bias and relu

  int64_t images, pixels;              // of an image
  int64_t groups, group_in, group_out; // channels of a group
  int64_t panel_channels, panels;      // most output channels of a panel; panels of a group, of nearly equal size
  int64_t tile_pixels, tiles;          // of a register tile; tiles of an image, joined pixels left out
  int64_t lanes;                       // of a vector
  int64_t joined, joined_pixels;       // images that share a vector, 1: none; pixels of each in it
  int64_t units;                       // tiles of all images; after those of `joined` images the one that they share
  Grid grid;                           // units by panels of all groups
  int64_t sums_at, scratch_bytes;      // of one task: an incomplete or copied tile's pixels, then its sums
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, pointwise_task, const PointwisePlan &plan, const LayerRun &run, const GridShare &share)

} // namespace polyconv::cpu
