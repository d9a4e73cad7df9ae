// view.hpp - random views: a problem's input or output as part of something larger, of its channels, columns, rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <random>

namespace conformance {

// `which`: POLYCONV_TENSOR_INPUT or _OUTPUT. A problem that is invalid stays as it is.
template <class Random>
void draw_view(Random &random, int32_t which, polyconv_problem *p) {
  const auto chance = [&](int percent) { return std::uniform_int_distribution<int>(1, 100)(random) <= percent; };
  polyconv_problem dense = *p;
  dense.has_input_strides = dense.has_output_strides = 0;
  polyconv_tensor t = {};
  if (polyconv_problem_tensor(&dense, which, &t, nullptr) != POLYCONV_SUCCESS) return;
  const bool input = which == POLYCONV_TENSOR_INPUT;
  const bool last = (input ? p->input_layout : p->output_layout) == POLYCONV_CHANNELS_LAST;
  static const int kLast[] = {1, 4, 3, 2, 0}, kFirst[] = {4, 3, 2, 1, 0};
  const int64_t unit = chance(70) ? 8 : 1; // whole vectors or not
  int64_t step = 1, stride[5] = {};
  for (const int axis : last ? kLast : kFirst) {
    stride[axis] = step;
    step *= t.size[axis];
    if (chance(40)) step += unit * std::uniform_int_distribution<int64_t>(0, 3)(random);
    if (axis == (last ? 1 : 4)) step = (step + unit - 1) / unit * unit;
  }
  (input ? p->has_input_strides : p->has_output_strides) = 1;
  int64_t *const strides = input ? p->input_strides : p->output_strides;
  strides[0] = stride[0], strides[1] = stride[1];
  for (int axis = 0; axis < p->spatial_dims; ++axis) strides[2 + axis] = stride[5 - p->spatial_dims + axis];
}

} // namespace conformance
