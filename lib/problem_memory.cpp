// problem_memory.cpp - validation of what a problem's tensors are in memory: sizes that follow, overflow, strides.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cinttypes>

#include "problem_checks.hpp"
#include "problem_shape.hpp"
#include "problem_types.hpp"

namespace polyconv {
namespace {

// The output before pooling has at least one element in the axis; says which numbers leave none.
void check_convolved(const polyconv_problem &p, int32_t layer, int entry) {
  int64_t size = 0;
  if (!convolved_size(p, entry, &size))
    reject(layer,
           "input_size[%d] is %" PRId64 ", kernel_size %" PRId64 ", stride %" PRId64 ", dilation %" PRId64
           ", pads %" PRId64 "/%" PRId64 "; expected an output size below 2^63",
           entry, p.input_size[entry], p.kernel_size[entry], p.stride[entry], p.dilation[entry], p.pad_begin[entry],
           p.pad_end[entry]);
  if (size >= 1) return;
  if (p.transposed != 0)
    reject(layer,
           "pad_begin[%d] + pad_end[%d] is %" PRId64 " + %" PRId64
           "; expected less, as it leaves an output size of %" PRId64,
           entry, entry, p.pad_begin[entry], p.pad_end[entry], size);
  reject(layer,
         "kernel_size[%d] is %" PRId64 " (%" PRId64 " with dilation %" PRId64
         "); expected at most the padded input, "
         "which is %" PRId64 " + %" PRId64 " + %" PRId64,
         entry, p.kernel_size[entry], (p.kernel_size[entry] - 1) * p.dilation[entry] + 1, p.dilation[entry],
         p.input_size[entry], p.pad_begin[entry], p.pad_end[entry]);
}

// Kernels walk coordinates of the padded input, so that size must be a number too. In a transposed problem it is
// the output that is padded.
void check_padded(const polyconv_problem &p, int32_t layer, int entry) {
  int64_t size = p.input_size[entry];
  if (p.transposed != 0) convolved_size(p, entry, &size);
  int64_t padded = 0;
  if (__builtin_add_overflow(size, p.pad_begin[entry], &padded) ||
      __builtin_add_overflow(padded, p.pad_end[entry], &padded))
    reject(layer, "pad_begin[%d] is %" PRId64 " and pad_end[%d] %" PRId64 "; expected a padded size below 2^63", entry,
           p.pad_begin[entry], entry, p.pad_end[entry]);
}

void check_pooled(const polyconv_problem &p, int32_t layer, int entry) {
  int64_t convolved = 0;
  int64_t size = 0;
  convolved_size(p, entry, &convolved);
  const polyconv_pool &pool = p.epilogue.pool;
  if (!pooled_size(pool, convolved, entry, &size) || size < 1)
    reject(layer,
           "epilogue.pool.window[%d] is %" PRId64 "; expected at most the padded output, which is %" PRId64
           " + %" PRId64 " + %" PRId64,
           entry, pool.window[entry], convolved, pool.pad_begin[entry], pool.pad_end[entry]);
}

using Strides = int64_t[kAxes];

void check_strides(int32_t layer, const char *field, const Strides &strides, int32_t dims, bool zero_on_first) {
  for (int entry = 0; entry < 2 + dims; ++entry) {
    if (strides[entry] >= 1 || (entry == 0 && zero_on_first && strides[entry] == 0)) continue;
    reject(layer, "%s[%d] is %" PRId64 "; expected at least 1%s", field, entry, strides[entry],
           entry == 0 && zero_on_first ? ", or 0 for one filter for all channels" : "");
  }
}

// Every axis, in order of stride, must step over all that the smaller ones reach; then no two elements share a
// place. Axes of size 1 are never stepped along.
void check_no_overlap(int32_t layer, const char *field, const polyconv_tensor &tensor, int32_t dims) {
  std::array<int, kAxes> axes = {0, 1, 2, 3, 4};
  std::sort(axes.begin(), axes.end(), [&](int a, int b) { return tensor.stride[a] < tensor.stride[b]; });
  int64_t reach = 1; // elements that the axes so far span; within extent_of's bounds, so it cannot overflow
  for (int axis : axes) {
    if (tensor.size[axis] == 1) continue;
    if (tensor.stride[axis] < reach)
      reject(layer,
             "%s[%d] is %" PRId64 "; expected at least %" PRId64 ", so that what is written does not overlap itself",
             field, axis < 2 ? axis : axis - (POLYCONV_MAX_SPATIAL - dims), tensor.stride[axis], reach);
    reach += (tensor.size[axis] - 1) * tensor.stride[axis];
  }
}

// A tensor's bytes are a number: an empty batch counts as one image, because kernels multiply before they look.
void check_extent(int32_t layer, const char *name, polyconv_tensor tensor, bool sized) {
  const TypeInfo &type = *type_info(tensor.type);
  tensor.size[0] = std::max<int64_t>(tensor.size[0], 1);
  int64_t number = 1;
  bool fine = sized && extent_of(tensor, &number) && !__builtin_mul_overflow(number, type.size, &number);
  number = 1; // overlapping strides reach less than there are elements: those are counted too
  for (int64_t size : tensor.size) fine = !__builtin_mul_overflow(number, size, &number) && fine;
  fine = !__builtin_mul_overflow(number, type.size, &number) && fine;
  if (!fine)
    reject(layer,
           "the %s is %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
           " elements of %s; expected fewer than 2^63 bytes from its first to its last",
           name, tensor.size[0], tensor.size[1], tensor.size[2], tensor.size[3], tensor.size[4], type.name);
}

} // namespace

void check_memory(const polyconv_problem &p, int32_t layer) {
  for (int entry = 0; entry < p.spatial_dims; ++entry) {
    check_convolved(p, layer, entry);
    check_padded(p, layer, entry);
    check_pooled(p, layer, entry);
  }
  const bool writes_weights = p.direction == POLYCONV_BACKWARD_WEIGHTS;
  if (p.has_input_strides != 0) check_strides(layer, "input_strides", p.input_strides, p.spatial_dims, false);
  if (p.has_weights_strides != 0)
    check_strides(layer, "weights_strides", p.weights_strides, p.spatial_dims, !writes_weights);
  if (p.has_output_strides != 0) check_strides(layer, "output_strides", p.output_strides, p.spatial_dims, false);

  polyconv_tensor input, weights, output, convolved;
  bool sized = input_tensor(p, &input); // before the call: arguments have no order
  check_extent(layer, "input", input, sized);
  sized = weights_tensor(p, &weights);
  check_extent(layer, "weights", weights, sized);
  sized = convolved_tensor(p, &convolved);
  check_extent(layer, "output before pooling", convolved, sized);
  sized = output_tensor(p, &output);
  check_extent(layer, "output", output, sized);
  if (p.direction == POLYCONV_FORWARD && p.batch > 0) check_no_overlap(layer, "output_strides", output, p.spatial_dims);
  if (p.direction == POLYCONV_BACKWARD_DATA && p.batch > 0)
    check_no_overlap(layer, "input_strides", input, p.spatial_dims);
  if (writes_weights) check_no_overlap(layer, "weights_strides", weights, p.spatial_dims);
}

} // namespace polyconv
