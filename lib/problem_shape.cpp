// problem_shape.cpp - sizes and tensors of one problem. Every product and sum is checked: an overflow is told to
// the caller, never computed with.
// SPDX-License-Identifier: Apache-2.0
#include "problem_shape.hpp"

#include "problem_types.hpp"

namespace polyconv {
namespace {

// A sum and product that remember whether they ever overflowed.
class Checked {
 public:
  explicit Checked(int64_t value) : value_(value) {}
  Checked &add(int64_t other) {
    fine_ = !__builtin_add_overflow(value_, other, &value_) && fine_;
    return *this;
  }
  Checked &subtract(int64_t other) {
    fine_ = !__builtin_sub_overflow(value_, other, &value_) && fine_;
    return *this;
  }
  Checked &multiply(int64_t other) {
    fine_ = !__builtin_mul_overflow(value_, other, &value_) && fine_;
    return *this;
  }
  bool get(int64_t *value) const {
    *value = value_;
    return fine_;
  }

 private:
  int64_t value_;
  bool fine_ = true;
};

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
  return true;
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
    if (entry >= 0 && pooled && !pooled_size(problem.epilogue.pool, size, entry, &size)) size = 0;
    tensor.size[2 + axis] = size;
  }
  return tensor;
}

} // namespace

bool convolved_size(const polyconv_problem &problem, int entry, int64_t *size) {
  const int64_t stride = problem.stride[entry];
  int64_t reach = 0; // of a kernel less its first tap
  if (!Checked(problem.kernel_size[entry]).subtract(1).multiply(problem.dilation[entry]).get(&reach)) return false;
  if (problem.transposed != 0)
    return Checked(problem.input_size[entry])
        .subtract(1)
        .multiply(stride)
        .add(reach)
        .add(1)
        .add(problem.output_padding[entry])
        .subtract(problem.pad_begin[entry])
        .subtract(problem.pad_end[entry])
        .get(size);
  int64_t room = 0;
  if (!Checked(problem.input_size[entry])
           .add(problem.pad_begin[entry])
           .add(problem.pad_end[entry])
           .subtract(reach)
           .subtract(1)
           .get(&room))
    return false;
  return Checked(floor_divide(room, stride)).add(1).get(size);
}

bool pooled_size(const polyconv_pool &pool, int64_t convolved, int entry, int64_t *size) {
  *size = convolved;
  if (pool.kind == POLYCONV_POOL_NONE) return true;
  int64_t room = 0;
  if (!Checked(convolved).add(pool.pad_begin[entry]).add(pool.pad_end[entry]).subtract(pool.window[entry]).get(&room))
    return false;
  return Checked(floor_divide(room, pool.stride[entry])).add(1).get(size);
}

bool dense_strides(const int64_t (&size)[kAxes], int32_t layout, int64_t (&stride)[kAxes]) {
  constexpr int kInnerToOuter[2][kAxes] = {{4, 3, 2, 1, 0}, {1, 4, 3, 2, 0}};
  Checked extent(1);
  for (int axis : kInnerToOuter[layout]) {
    // An empty batch is outermost, so the product that it makes 0 is never used; no other size is 0.
    if (!extent.get(&stride[axis])) return false;
    extent.multiply(size[axis]);
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
