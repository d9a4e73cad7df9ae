// rows.hpp - kernels by rows: some rows of one image's results at a time, on the calling thread. What chains (chain/)
// are made of: a layer's rows are consumed by the next one while they are still in the cache. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/isa.hpp"

namespace polyconv::cpu {

// Results [first, first + count) of an axis.
struct AxisWindow {
  const Axis *axis; // of the layer, with its tables
  int64_t first, count;
};

// Result rows of a layer, and what the kernel's plan, which is made for a band of so many rows at most, does not know
// of the whole layer. Kernels of planes take some of the columns too, and so many at most; others all of them.
struct RowWindow {
  AxisWindow rows, columns;
  bool from_memory, to_memory; // input and results that are too large to be in the cache
  float highest;               // kernel image, where over 0: f32 results are rounded, and held from 0 to this
};

// The axis as a window's results count it, from 0: coordinates of the input stay what they are.
inline Axis axis_of(const AxisWindow &window) {
  Axis axis = *window.axis;
  axis.before -= window.first * axis.step;
  axis.out = window.count;
  return axis;
}

// Results, residuals and saved values from a window's first row and column on.
inline Epilogue from_window(Epilogue epilogue, const RowWindow &window) {
  for (polyconv_tensor *t : {&epilogue.result, &epilogue.residual_tensor, &epilogue.saved_tensor})
    t->offset += window.rows.first * t->stride[3] + window.columns.first * t->stride[4];
  return epilogue;
}

inline LayerRun window_run(const Epilogue &epilogue, const polyconv_arguments &a, const RowWindow &window,
                           bool stream = false) {
  return {from_window(with_arguments(epilogue, a), window), a.input, a.weights[0], stream};
}

// An instance that was created for a layer of one image and depth, one thread, and as many rows as a window ever has.
class RowInstance : public sdk::Instance {
 public:
  // `arguments` are those of the whole image: row 0 of every tensor lies where its pointer, offset and strides say,
  // though only the rows that the window reads and writes need be there. `workspace` is the calling thread's.
  virtual void run_rows(const polyconv_arguments &arguments, const RowWindow &window) const = 0;
};

// A kernel whose instances are RowInstances for forward layers.
struct RowFamily {
  const sdk::Kernel *kernel;
  // Microseconds of one thread whose tensors lie in the cache, for a layer that `kernel` supports.
  double (*serial_us)(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);
  bool filters_planes; // where channels lie apart: takes windows of some columns
};

} // namespace polyconv::cpu
