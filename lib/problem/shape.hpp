// shape.hpp - sizes and tensors of one problem, in five axes whatever its dimensions: the arithmetic that
// validation (checked) and normalisation (of what is already valid) share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

namespace polyconv {

// Axes of a tensor: N C D H W, or K C/g D R S.
constexpr int kAxes = 2 + POLYCONV_MAX_SPATIAL;

// Entry of a spatial array for one of the three axes D H W, to which 1D and 2D are aligned on the right.
inline int64_t spatial(const int64_t (&values)[POLYCONV_MAX_SPATIAL], int32_t dims, int axis, int64_t absent) {
  const int entry = axis - (POLYCONV_MAX_SPATIAL - dims);
  return entry >= 0 ? values[entry] : absent;
}

// Output size before pooling, and after it, of entry `entry` (0..spatial_dims-1). False where the arithmetic
// overflows; the size may come out below 1, which no valid problem has.
bool convolved_size(const polyconv_problem &problem, int entry, int64_t *size);
bool pooled_size(const polyconv_problem &problem, int64_t convolved, int entry, int64_t *size);

// The stride and dilation that a valid problem takes steps of: 1 where there is no second output to step to, or no
// second tap, whatever the caller wrote. Output sizes follow from what the caller wrote.
int64_t walked_stride(const polyconv_problem &problem, int entry);
int64_t walked_dilation(const polyconv_problem &problem, int entry);

// Fills the dense strides of a layout; false on overflow.
bool dense_strides(const int64_t (&size)[kAxes], int32_t layout, int64_t (&stride)[kAxes]);

// Elements from the pointer to the end of the tensor; 0 for an empty one. False on overflow.
bool extent_of(const polyconv_tensor &tensor, int64_t *elements);

// Elements from the first in memory to the last, whichever way strides walk; a size of 0 counts as 1. False on
// overflow.
bool reach_of(const polyconv_tensor &tensor, int64_t *elements);

// Elements of a valid tensor that lie before its pointer: those of negative strides, where the pointer is that of the
// element 0 and not of the first in memory.
int64_t elements_before(const polyconv_tensor &tensor);

// An axis whose stride does not step over all that shorter ones reach, so that elements may share a place, and that
// reach; -1 where there is none. Strides count by their length; axes of size 1 are never stepped along.
int overlapping_axis(const polyconv_tensor &tensor, int64_t *reach);

// A tensor's shape and strides, from its first element in memory on: `offset` is where its element 0 lies, at which the
// caller's pointer points; it is 0 but for negative strides. False where dense strides or that offset overflow.
bool input_tensor(const polyconv_problem &problem, polyconv_tensor *tensor);
bool weights_tensor(const polyconv_problem &problem, polyconv_tensor *tensor);   // as the caller has them: not flipped
bool output_tensor(const polyconv_problem &problem, polyconv_tensor *tensor);    // after pooling
bool convolved_tensor(const polyconv_problem &problem, polyconv_tensor *tensor); // before pooling

// The output before pooling in another type, always dense in output_layout: what `saved` holds.
bool saved_tensor(const polyconv_problem &problem, int32_t save, polyconv_tensor *tensor);

inline bool has_pooling(const polyconv_problem &problem) {
  return problem.epilogue.pool.kind != POLYCONV_POOL_NONE;
}

// Whether a gradient needs to know what the forward run saved. An average is linear.
inline bool reads_saved(const polyconv_problem &problem) {
  return problem.direction != POLYCONV_FORWARD &&
         (problem.epilogue.activation != POLYCONV_ACT_NONE || problem.epilogue.pool.kind == POLYCONV_POOL_MAX);
}

} // namespace polyconv
