// rows.hpp - kernels by rows: some rows of one image's results at a time, on the calling thread. What chains (chain/)
// are made of: a layer's rows are consumed by the next one while they are still in the cache. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/axis.hpp"
#include "cpu/epilogue.hpp"
#include "cpu/isa.hpp"

namespace polyconv::cpu {

// Result rows [first, first + count) of a layer, and what the kernel's plan, which is made for a band of so many rows
// at most, does not know of the whole layer.
struct RowWindow {
  const Axis *axis; // H of the layer, with its tables
  int64_t first, count;
  bool from_memory, to_memory; // input and results that are too large to be in the cache
};

// H as a window's rows count it, from 0: coordinates of the input stay what they are.
inline Axis rows_of(const RowWindow &window) {
  Axis axis = *window.axis;
  axis.before -= window.first * axis.step;
  axis.out = window.count;
  return axis;
}

// Results, residuals and saved values from row `first` on.
inline Epilogue from_row(Epilogue epilogue, int64_t first) {
  for (polyconv_tensor *t : {&epilogue.result, &epilogue.residual_tensor, &epilogue.saved_tensor})
    t->offset += first * t->stride[3];
  return epilogue;
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
};

} // namespace polyconv::cpu
