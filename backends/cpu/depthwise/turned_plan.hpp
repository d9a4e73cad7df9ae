// turned_plan.hpp - the geometry of depthwise convolution with channels first by way of pixels, decided at plan time.
//
// Some channels, whole vectors of them, of a strip of rows are turned into pixels in scratch, which stays in the second
// cache; filtered there as if channels lay side by side; and turned back while it is finished. No tensor is converted
// as a whole, and planes may be as small and strides as large as they are: lanes are channels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/plan.hpp"
#include "cpu/pass.hpp"

namespace polyconv::cpu {

struct TurnedPlan {
  DepthwisePlan pixels;          // one image of `unit` channels side by side, f32 in and out
  polyconv_tensor input;         // as it is
  Epilogue epilogue;             // of the layer
  int64_t channels, unit, units; // a unit is whole vectors of any instruction set; the last one may have fewer channels
  int64_t strip_rows, strips;    // of results
  int64_t items, tasks;          // items: image, unit, strip
  int64_t source_at, result_at;  // in a task's scratch, behind that of `pixels`
  int64_t scratch_bytes;         // of one task
  double serial_us;              // of one thread, tensors in the cache
  double estimate_us;
};

// Items [first, last) of the results of `rows` and `columns`, which are the layer's own or those of a window of it.
struct TurnedShare {
  int64_t first, last;
  Axis rows, columns; // counted from 0
  int64_t strip_rows, strips;
  char *scratch;
};

POLYCONV_ISA_FUNCTION(void, depthwise_turned_task, const TurnedPlan &plan, const LayerRun &run,
                      const TurnedShare &share)

} // namespace polyconv::cpu
