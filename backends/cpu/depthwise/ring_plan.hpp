// ring_plan.hpp - the geometry of depthwise convolution by rings of source rows, decided at plan time.
//
// A unit of 16 channels, a line of the caches, goes through an image alone. The rows of its source that a row of
// results reads stand in a ring in scratch, pixel behind pixel, padding filled in: no tile knows borders, looks pixels
// up or meets pixels that lie whole pages apart, and every source row is brought in once. Channels first, rows are
// turned as they come and as they go.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/plan.hpp"
#include "cpu/pass.hpp"

namespace polyconv::cpu {

constexpr int kRingColumns = 7; // of a tile: two vectors of sums each, beside which two of weights have room

struct RingPlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  float pad_value;
  int32_t turned;                          // channels first
  int32_t direct;                          // channels last, and results are stored by the tile
  int32_t value;                           // padding is a value
  int32_t skips;                           // rows of zero padding are left out
  int64_t channels, units, taps;           // packed weights: [unit][tap of all axes][channel]
  int64_t chunk;                           // columns of results that share a ring
  int64_t ring, line;                      // rows of a ring, more than a row of results reads; elements of one
  int64_t joined;                          // rows of results that are finished at once
  int64_t bands, band_rows;                // of results
  int64_t items, tasks;                    // items: image, depth, unit, band
  int64_t sums_at, rows_at, scratch_bytes; // of one task; the ring comes first
  double serial_us;                        // of one thread, tensors in the cache
  double estimate_us;
};

// Items [first, last) of the results of `rows` and `columns`, which are the layer's own or those of a window of it.
struct RingShare {
  int64_t first, last;
  Axis rows, columns; // counted from 0
  int64_t bands;
  char *scratch;
};

POLYCONV_ISA_FUNCTION(void, depthwise_ring_task, const RingPlan &plan, const LayerRun &run, const RingShare &share)

} // namespace polyconv::cpu
