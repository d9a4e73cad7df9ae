// problem_shape.hpp - sizes and tensors of one problem, in five axes whatever its dimensions: the arithmetic that
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
bool pooled_size(const polyconv_pool &pool, int64_t convolved, int entry, int64_t *size);

// Fills the dense strides of a layout; false on overflow.
bool dense_strides(const int64_t (&size)[kAxes], int32_t layout, int64_t (&stride)[kAxes]);

// Elements from the pointer to the end of the tensor; 0 for an empty one. False on overflow.
bool extent_of(const polyconv_tensor &tensor, int64_t *elements);

// A tensor's shape and strides. False where dense strides overflow.
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
