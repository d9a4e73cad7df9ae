// axis.hpp - one spatial axis of a convolution as plain data: which input coordinate tap t of output o reads, padding
// folded in. Tables are made at plan time (axis.cpp), so that no pass needs the padding rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/pass.hpp"

#include <polyconv/backend.h>

namespace polyconv::cpu {

struct Axis {
  int64_t in, out, taps; // sizes of input, output and kernel
  int64_t step, dilation, before, after;
  const int64_t *left, *right; // what coordinates -1, -2, ... and in, in + 1, ... read; -1 for the padding value
  int32_t pad_mode;
};

// Outputs of an axis that a tap meets inside the input, for kernels that leave zero padding out: [first, last).
struct AxisOutputs {
  int64_t first, last;
};

constexpr int64_t kListed = 1 << 12; // coordinates of a side in the tables; what lies further out is reckoned

namespace POLYCONV_ISA {

// As padding.hpp has it, which passes may not call.
POLYCONV_NOINLINE int64_t far_inside(const Axis &axis, int64_t y) {
  const int64_t size = axis.in, edge = axis.pad_mode == POLYCONV_PAD_REFLECT ? 1 : 0;
  if (axis.pad_mode == POLYCONV_PAD_ZERO || axis.pad_mode == POLYCONV_PAD_CONSTANT) return -1;
  if (axis.pad_mode == POLYCONV_PAD_REPLICATE) return y < 0 ? 0 : size - 1;
  const int64_t period = axis.pad_mode == POLYCONV_PAD_CIRCULAR ? size : 2 * (size - edge);
  if (period == 0) return 0;
  int64_t r = y % period;
  if (r < 0) r += period;
  return r < size ? r : period - r - (1 - edge);
}

// The coordinate inside the input that coordinate y reads, -1 for the padding value.
POLYCONV_INLINE int64_t inside(const Axis &axis, int64_t y) {
  if (y < 0) return y >= -kListed ? axis.left[-1 - y] : far_inside(axis, y);
  if (y < axis.in) return y;
  return y - axis.in < kListed ? axis.right[y - axis.in] : far_inside(axis, y);
}

// a / step, rounded up, for a >= 0; the strides that matter cost no division.
POLYCONV_INLINE int64_t steps_to(int64_t a, int64_t step) {
  return step == 1 ? a : step == 2 ? (a + 1) >> 1 : (a + step - 1) / step;
}

// Elements of a row that begins at coordinate `first` and advances by `step`: [0, a) and [b, last) lie outside the
// input, [a, b) inside. `wanted` elements, but none from coordinate `end` on.
struct AxisRun {
  int64_t a, b, last;
};
POLYCONV_INLINE AxisRun axis_run(int64_t first, int64_t step, int64_t size, int64_t end, int64_t wanted) {
  AxisRun run;
  run.last = end > first ? steps_to(end - first, step) : 0;
  run.last = run.last < wanted ? run.last : wanted;
  run.a = first < 0 ? steps_to(-first, step) : 0;
  run.b = size > first ? steps_to(size - first, step) : 0;
  run.a = run.a < run.last ? run.a : run.last;
  run.b = run.b < run.a ? run.a : run.b < run.last ? run.b : run.last;
  return run;
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include <vector>

namespace polyconv::cpu {

// Axis 0, 1 or 2 of a layer, without tables.
Axis make_axis(const polyconv_layer &layer, int axis);

// The tables of three axes, which then point into them.
std::vector<int64_t> make_axis_tables(const polyconv_layer &layer, Axis (&axes)[3]);

// The tables of one axis, which then points into them, and has this mode.
std::vector<int64_t> make_axis_table(int32_t pad_mode, Axis &axis);

// The layer with its spatial axes exchanged so that W has most taps and D fewest; taps that are dilated stay where they
// are. Sums are those of the layer in another order.
polyconv_layer with_most_taps_last(polyconv_layer layer);

AxisOutputs outputs_inside(const Axis &axis, int64_t tap);

// Whether one tap reads pixel after pixel: every axis at step 1, without padding, and none left out behind.
bool takes_every_pixel(const Axis (&axes)[3]);

} // namespace polyconv::cpu
#endif
