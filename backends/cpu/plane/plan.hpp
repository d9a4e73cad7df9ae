// plan.hpp - the geometry of filters of one channel over planes (image.cpp, depthwise.cpp), decided at plan time.
//
// A plane is one channel of one image: rows of elements side by side, to which `filters` filters apply. Interleaved
// pixels (RGB) are one plane of elements too: taps then lie `pixel` elements apart, and the weights are either the same
// for all channels or periodic along the row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

constexpr int kPlaneRows = 4; // result rows of a register tile

struct PlanePlan {
  polyconv_tensor input, weights;
  Epilogue epilogue;
  Axis axis[3];
  double pad_value;
  int32_t arithmetic; // POLYCONV_F32 or F64
  int32_t square;     // 3, 5 or 7: an unrolled tile of kPlaneRows rows; 0: any kernel
  int32_t passes;     // separable: along H into scratch, then along W
  int32_t neighbours; // the taps of W are neighbouring elements of a line
  int32_t periodic;   // interleaved with weights of their own for each channel
  int32_t in_place;   // elements need no conversion and lie side by side
  int32_t masks;      // and so at the edges: zeros are masked in
  int32_t ring;       // lines in scratch serve the groups of rows below too: chunks are walked from top to bottom
  int32_t direct;     // f32 results side by side, at most a bias and a quick activation: stored by the tile

  int64_t channels, filters, pixel; // planes of an image, filters of a plane, elements of a pixel
  int64_t planes;                   // of the batch
  int64_t group_rows, lines;        // result rows computed together and the source rows they read
  int64_t strip_rows, strips;       // result rows of an item of work
  int64_t unit, chunk;              // pixels: of a full register tile, and of a scratch line
  int64_t tile_vectors;
  int64_t reach;                         // elements of a line beyond its results
  int64_t plane_elements, line_elements; // of one remainder modulo the stride, and of a whole scratch line
  int64_t remainders;                    // how many of them
  const int64_t *remainder;              // each of them
  const int64_t *tap;                    // element offset of each tap of W in a line

  int64_t items, tasks;
  int64_t vertical_at, vertical_stride;                  // scratch: lines and one of padding; rows of half-done sums
  int64_t weights_at, sums_at, sums_stride, pointers_at; // and the rest
  int64_t scratch_bytes;
  double serial_us; // of one thread, tensors in the cache
  double estimate_us;
};

struct PlaneRun {
  Epilogue epilogue; // with pointers
  const void *input, *weights;
  int32_t stream; // results are too many for the cache and aligned: stores pass it by
  int32_t fetch;  // the input may not be in the cache: rows below are fetched early
  float highest;  // where over 0, f32 results stand for whole numbers from 0 to this
};

// Defined by image.cpp.
POLYCONV_ISA_FUNCTION(void, image_task, const PlanePlan &plan, const PlaneRun &run, const ItemShare &share)

} // namespace polyconv::cpu
