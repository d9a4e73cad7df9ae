// shape.cpp - sizes and tensors of one problem. Every product and sum is checked: an overflow is told to
// the caller, never computed with.
// SPDX-License-Identifier: Apache-2.0
#include "problem/shape.hpp"

#include "base/checked.hpp"
#include "problem/types.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace polyconv {
namespace {

int64_t floor_divide(int64_t dividend, int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

// Strides for a tensor whose sizes are set: the caller's, or dense ones of the layout.
bool lay_out(int32_t dims, int32_t layout, bool own, const int64_t (&own_strides)[kAxes], polyconv_tensor *tensor) {
  if (!own) return dense_strides(tensor->size, layout, tensor->stride);
  const int absent = POLYCONV_MAX_SPATIAL - dims;
  for (int axis = 0; axis < kAxes; ++axis) {
    // An absent axis has size 1 and is never walked; the outermost present axis gives it a stride.
    const int entry = axis < 2 ? axis : axis - absent < 2 ? 2 : axis - absent;
    tensor->stride[axis] = own_strides[entry];
  }
  Checked before(0); // elements that lie before the first, which axes of negative stride walk to
  for (int axis = 0; axis < kAxes; ++axis) {
    int64_t last = 0;
    if (tensor->size[axis] <= 1 || tensor->stride[axis] >= 0) continue;
    if (!Checked(tensor->size[axis]).subtract(1).multiply(tensor->stride[axis]).get(&last)) return false;
    before.subtract(last);
  }
  return before.get(&tensor->offset);
}

// Sizes of the output before pooling; 0 in an axis that overflows, which validation has refused already.
polyconv_tensor sized_output(const polyconv_problem &problem, bool pooled) {
  polyconv_tensor tensor = {};
  tensor.type = problem.output_type;
  tensor.size[0] = problem.batch;
  tensor.size[1] = problem.out_channels;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    const int entry = axis - (POLYCONV_MAX_SPATIAL - problem.spatial_dims);
    int64_t size = 1;
    if (entry >= 0 && !convolved_size(problem, entry, &size)) size = 0;
    if (entry >= 0 && pooled && !pooled_size(problem, size, entry, &size)) size = 0;
    tensor.size[2 + axis] = size;
  }
  return tensor;
}

} // namespace

bool convolved_size(const polyconv_problem &problem, int entry, int64_t *size) {
  const int64_t stride = problem.stride[entry], input = problem.input_size[entry];
  int64_t reach = 0; // of a kernel less its first tap
  if (!Checked(problem.kernel_size[entry]).subtract(1).multiply(problem.dilation[entry]).get(&reach)) return false;
  bool fine = true;
  if (problem.transposed != 0) {
    fine = Checked(input)
               .subtract(1)
               .multiply(stride)
               .add(reach)
               .add(1)
               .add(problem.output_padding[entry])
               .subtract(problem.pad_begin[entry])
               .subtract(problem.pad_end[entry])
               .get(size);
  } else {
    int64_t room = 0;
    fine = Checked(input)
               .add(problem.pad_begin[entry])
               .add(problem.pad_end[entry])
               .subtract(reach)
               .subtract(1)
               .get(&room) &&
           Checked(floor_divide(room, stride)).add(1).get(size);
  }
  if (input == 0 && *size < 0) *size = 0; // of nothing there is nothing
  return fine;
}

int64_t walked_stride(const polyconv_problem &problem, int entry) {
  int64_t size = problem.input_size[entry]; // what a transposed problem steps along is its input
  if (problem.transposed == 0) convolved_size(problem, entry, &size);
  return size <= 1 ? 1 : problem.stride[entry];
}

int64_t walked_dilation(const polyconv_problem &problem, int entry) {
  return problem.kernel_size[entry] == 1 ? 1 : problem.dilation[entry];
}

bool pooled_size(const polyconv_problem &problem, int64_t convolved, int entry, int64_t *size) {
  const polyconv_pool &pool = problem.epilogue.pool;
  *size = convolved;
  if (pool.kind == POLYCONV_POOL_NONE || convolved == 0) return true;
  const int64_t stride = pool.stride[entry];
  int64_t reach = 0, room = 0, last = 0; // of a window less its first element; where the last one begins
  if (!Checked(pool.window[entry]).subtract(1).multiply(problem.pool_dilation[entry]).get(&reach)) return false;
  if (!Checked(convolved).add(pool.pad_begin[entry]).add(pool.pad_end[entry]).subtract(reach).subtract(1).get(&room))
    return false;
  const bool up = problem.pool_ceil != 0 && room % stride != 0;
  int64_t windows = floor_divide(room, stride) + (up ? 1 : 0); // behind the first
  if (up && Checked(windows).multiply(stride).subtract(pool.pad_begin[entry]).get(&last) && last >= convolved)
    --windows;
  return Checked(windows).add(1).get(size);
}

bool dense_strides(const int64_t (&size)[kAxes], int32_t layout, int64_t (&stride)[kAxes]) {
  constexpr int kInnerToOuter[2][kAxes] = {{4, 3, 2, 1, 0}, {1, 4, 3, 2, 0}};
  Checked extent(1);
  for (int axis : kInnerToOuter[layout]) {
    if (!extent.get(&stride[axis])) return false;
    extent.multiply(size[axis] > 0 ? size[axis] : 1); // nothing lies along an axis of 0, and strides stay what they are
  }
  return true;
}

bool extent_of(const polyconv_tensor &tensor, int64_t *elements) {
  *elements = 0;
  for (int64_t size : tensor.size)
    if (size == 0) return true;
  Checked extent(1);
  extent.add(tensor.offset);
  for (int axis = 0; axis < kAxes; ++axis) {
    if (tensor.stride[axis] <= 0) continue; // negative strides go back from offset
    int64_t last = 0;
    if (!Checked(tensor.size[axis]).subtract(1).multiply(tensor.stride[axis]).get(&last)) return false;
    extent.add(last);
  }
  return extent.get(elements);
}

bool reach_of(const polyconv_tensor &tensor, int64_t *elements) {
  polyconv_tensor forward = tensor;
  forward.offset = 0;
  for (int axis = 0; axis < kAxes; ++axis) {
    forward.size[axis] = std::max<int64_t>(tensor.size[axis], 1);
    forward.stride[axis] = std::abs(tensor.stride[axis]);
  }
  return extent_of(forward, elements);
}

int64_t elements_before(const polyconv_tensor &tensor) {
  int64_t lowest = tensor.offset;
  for (int axis = 0; axis < kAxes; ++axis)
    if (tensor.size[axis] > 1 && tensor.stride[axis] < 0) lowest += (tensor.size[axis] - 1) * tensor.stride[axis];
  return std::max<int64_t>(-lowest, 0);
}

int overlapping_axis(const polyconv_tensor &tensor, int64_t *reach) {
  std::array<int, kAxes> axes = {0, 1, 2, 3, 4};
  const auto length = [&](int axis) { return std::abs(tensor.stride[axis]); };
  std::sort(axes.begin(), axes.end(), [&](int a, int b) { return length(a) < length(b); });
  *reach = 1; // elements that the axes so far span; within extent_of's bounds, so it cannot overflow
  for (int axis : axes) {
    if (tensor.size[axis] <= 1) continue;
    if (length(axis) < *reach) return axis;
    *reach += (tensor.size[axis] - 1) * length(axis);
  }
  return -1;
}

bool input_tensor(const polyconv_problem &problem, polyconv_tensor *tensor) {
  *tensor = {};
  tensor->type = problem.input_type;
  tensor->size[0] = problem.batch;
  tensor->size[1] = problem.in_channels;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis)
    tensor->size[2 + axis] = spatial(problem.input_size, problem.spatial_dims, axis, 1);
  return lay_out(problem.spatial_dims, problem.input_layout, problem.has_input_strides != 0, problem.input_strides,
                 tensor);
}

bool weights_tensor(const polyconv_problem &problem, polyconv_tensor *tensor) {
  const bool transposed = problem.transposed != 0;
  *tensor = {};
  tensor->type = problem.weights_type;
  tensor->size[0] = transposed ? problem.in_channels : problem.out_channels;
  tensor->size[1] = (transposed ? problem.out_channels : problem.in_channels) / problem.groups;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis)
    tensor->size[2 + axis] = spatial(problem.kernel_size, problem.spatial_dims, axis, 1);
  return lay_out(problem.spatial_dims, problem.weights_layout, problem.has_weights_strides != 0,
                 problem.weights_strides, tensor);
}

bool output_tensor(const polyconv_problem &problem, polyconv_tensor *tensor) {
  *tensor = sized_output(problem, true);
  return lay_out(problem.spatial_dims, problem.output_layout, problem.has_output_strides != 0, problem.output_strides,
                 tensor);
}

bool convolved_tensor(const polyconv_problem &problem, polyconv_tensor *tensor) {
  *tensor = sized_output(problem, false);
  // The caller's strides are those of the tensor that is stored, the pooled one.
  const bool own = problem.has_output_strides != 0 && !has_pooling(problem);
  return lay_out(problem.spatial_dims, problem.output_layout, own, problem.output_strides, tensor);
}

bool saved_tensor(const polyconv_problem &problem, int32_t save, polyconv_tensor *tensor) {
  const bool argmax = save == POLYCONV_SAVE_ARGMAX;
  *tensor = sized_output(problem, argmax);
  tensor->type = argmax ? POLYCONV_S32 : problem.output_type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
  return dense_strides(tensor->size, problem.output_layout, tensor->stride);
}

} // namespace polyconv
