// memory.cpp - validation of what a problem's tensors are in memory: sizes that follow, strides, and the bounds
// within which no kernel's arithmetic overflows.
// SPDX-License-Identifier: Apache-2.0
#include "base/checked.hpp"
#include "problem/checks.hpp"
#include "problem/shape.hpp"
#include "problem/types.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <initializer_list>
#include <iterator>

namespace polyconv {
namespace {

// The output before pooling has at least one element in the axis; says which numbers leave none.
void check_convolved(const polyconv_problem &p, int32_t layer, int entry) {
  int64_t size = 0, span = 0; // of the kernel, from its first tap to its last
  const bool counted = Checked(p.kernel_size[entry]).subtract(1).multiply(p.dilation[entry]).add(1).get(&span);
  if (!counted || !convolved_size(p, entry, &size))
    reject(layer,
           "input_size[%d] is %" PRId64 ", kernel_size %" PRId64 ", stride %" PRId64 ", dilation %" PRId64
           ", pads %" PRId64 "/%" PRId64 "; expected an output size below 2^63",
           entry, p.input_size[entry], p.kernel_size[entry], p.stride[entry], p.dilation[entry], p.pad_begin[entry],
           p.pad_end[entry]);
  if (size >= 1 || (size == 0 && p.input_size[entry] == 0)) return;
  if (p.transposed != 0)
    reject(layer,
           "pad_begin[%d] + pad_end[%d] is %" PRId64 " + %" PRId64
           "; expected less, as it leaves an output size of %" PRId64,
           entry, entry, p.pad_begin[entry], p.pad_end[entry], size);
  reject(layer,
         "kernel_size[%d] is %" PRId64 " (%" PRId64 " with dilation %" PRId64
         "); expected at most the padded input, "
         "which is %" PRId64 " + %" PRId64 " + %" PRId64,
         entry, p.kernel_size[entry], span, p.dilation[entry], p.input_size[entry], p.pad_begin[entry],
         p.pad_end[entry]);
}

// The size that is padded: that of the input, or in a transposed problem that of the output.
int64_t unpadded_size(const polyconv_problem &p, int entry) {
  int64_t size = p.input_size[entry];
  if (p.transposed != 0) convolved_size(p, entry, &size);
  return size;
}

// Kernels walk coordinates of the padded input.
void check_padded(const polyconv_problem &p, int32_t layer, int entry) {
  const int64_t size = unpadded_size(p, entry);
  if (Checked(size).add(p.pad_begin[entry]).add(p.pad_end[entry]).at_most(POLYCONV_MAX_ELEMENTS)) return;
  if (p.transposed != 0)
    reject(layer,
           "stride[%d] is %" PRId64 " and dilation[%d] %" PRId64 ", which makes an output size of %" PRId64
           ", with pads %" PRId64 "/%" PRId64 "; expected at most %" PRId64 " in all",
           entry, p.stride[entry], entry, p.dilation[entry], size, p.pad_begin[entry], p.pad_end[entry],
           POLYCONV_MAX_ELEMENTS);
  reject(layer,
         "pad_begin[%d] is %" PRId64 " and pad_end[%d] %" PRId64 " around an input size of %" PRId64
         "; expected at most %" PRId64 " in all",
         entry, p.pad_begin[entry], entry, p.pad_end[entry], size, POLYCONV_MAX_ELEMENTS);
}

void check_pooled(const polyconv_problem &p, int32_t layer, int entry) {
  int64_t convolved = 0;
  int64_t size = 0;
  convolved_size(p, entry, &convolved);
  const polyconv_pool &pool = p.epilogue.pool;
  if (convolved == 0) return;
  if (!pooled_size(p, convolved, entry, &size) || size < 1)
    reject(layer,
           "epilogue.pool.window[%d] is %" PRId64 " (pool_dilation %" PRId64
           "); expected at most the padded output, which is %" PRId64 " + %" PRId64 " + %" PRId64,
           entry, pool.window[entry], p.pool_dilation[entry], convolved, pool.pad_begin[entry], pool.pad_end[entry]);
  if (has_pooling(p) && pool.window[entry] > 1 && pool.pad_begin[entry] > 0 && p.pool_dilation[entry] > convolved)
    reject(layer,
           "pool_dilation[%d] is %" PRId64 "; expected at most the output before pooling, which is %" PRId64
           ", so that no window that begins in the padding is empty",
           entry, p.pool_dilation[entry], convolved);
}

using Strides = int64_t[kAxes];

// Of what is written, and of weights, which may be 0 on K where they are only read.
void check_strides(int32_t layer, const char *field, const Strides &strides, int32_t dims, bool zero_on_first) {
  for (int entry = 0; entry < 2 + dims; ++entry) {
    if (strides[entry] >= 1 || (entry == 0 && zero_on_first && strides[entry] == 0)) continue;
    const char *const where = !zero_on_first ? " in a tensor that is written"
                              : entry == 0   ? ", or 0 for one filter for all channels"
                                             : " in weights";
    reject(layer, "%s[%d] is %" PRId64 "; expected at least 1%s", field, entry, strides[entry], where);
  }
}

// Of data that is read: any number whose length is one.
void check_read_strides(int32_t layer, const char *field, const Strides &strides, int32_t dims) {
  for (int entry = 0; entry < 2 + dims; ++entry)
    if (strides[entry] == INT64_MIN) reject(layer, "%s[%d] is -2^63; expected more", field, entry);
}

// Two elements of what is written must not share a place.
void check_no_overlap(int32_t layer, const char *field, const polyconv_tensor &tensor, int32_t dims) {
  int64_t reach = 0;
  const int axis = overlapping_axis(tensor, &reach);
  const bool empty =
      std::any_of(std::begin(tensor.size), std::end(tensor.size), [](int64_t size) { return size == 0; });
  if (axis >= 0 && !empty)
    reject(layer,
           "%s[%d] is %" PRId64 "; expected at least %" PRId64 ", so that what is written does not overlap itself",
           field, axis < 2 ? axis : axis - (POLYCONV_MAX_SPATIAL - dims), tensor.stride[axis], reach);
}

// Whether the product of sizes stays within a bound.
bool countable(std::initializer_list<int64_t> sizes, int64_t most) {
  Checked product(1);
  for (const int64_t size : sizes) product.multiply(size);
  return product.at_most(most);
}

// Elements are counted from the first to the last, and, as overlapping strides reach less, one by one. A size of 0
// counts as 1, because kernels multiply before they look.
void check_extent(int32_t layer, const char *name, polyconv_tensor tensor, bool sized) {
  const int64_t(&size)[kAxes] = tensor.size;
  for (int64_t &one : tensor.size) one = std::max<int64_t>(one, 1);
  int64_t reach = 0;
  if (sized && countable({size[0], size[1], size[2], size[3], size[4]}, POLYCONV_MAX_ELEMENTS) &&
      reach_of(tensor, &reach) && reach <= POLYCONV_MAX_ELEMENTS)
    return;
  reject(layer,
         "the %s is %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
         " elements of %s; expected at most %" PRId64 " from its first to its last, and in all",
         name, size[0], size[1], size[2], size[3], size[4], type_info(tensor.type)->name, POLYCONV_MAX_ELEMENTS);
}

using Sizes = std::array<int64_t, POLYCONV_MAX_SPATIAL>;

// What kernels may keep of padded tensors: all images with the more numerous of their channels.
void check_volume(const polyconv_problem &p, int32_t layer, const char *name, int64_t channels, const Sizes &size) {
  const int64_t images = std::max<int64_t>(p.batch, 1);
  if (countable({images, channels, size[0], size[1], size[2]}, POLYCONV_MAX_PRODUCTS)) return;
  reject(layer,
         "the padded %s is %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
         " elements; expected at most %" PRId64,
         name, images, channels, size[0], size[1], size[2], POLYCONV_MAX_PRODUCTS);
}

void check_volumes(const polyconv_problem &p, int32_t layer) {
  const polyconv_pool &pool = p.epilogue.pool;
  Sizes padded = {1, 1, 1}, pooled = {1, 1, 1};
  for (int entry = 0; entry < p.spatial_dims; ++entry) {
    const size_t at = static_cast<size_t>(entry + POLYCONV_MAX_SPATIAL - p.spatial_dims);
    padded[at] = unpadded_size(p, entry) + p.pad_begin[entry] + p.pad_end[entry];
    convolved_size(p, entry, &pooled[at]);
    if (has_pooling(p)) pooled[at] += pool.pad_begin[entry] + pool.pad_end[entry];
  }
  check_volume(p, layer, p.transposed != 0 ? "output" : "input", std::max(p.in_channels, p.out_channels), padded);
  if (has_pooling(p)) check_volume(p, layer, "output before pooling", p.out_channels, pooled);
}

// Multiply-adds, padding included: `walked` has a product with each weight of a filter for every element.
void check_products(int32_t layer, const polyconv_tensor &walked, const polyconv_tensor &weights) {
  int64_t elements = 0, each = 0, number = 0;
  Checked(std::max<int64_t>(walked.size[0], 1))
      .multiply(walked.size[1])
      .multiply(walked.size[2])
      .multiply(walked.size[3])
      .multiply(walked.size[4])
      .get(&elements); // both are within check_extent's bounds
  Checked(weights.size[1]).multiply(weights.size[2]).multiply(weights.size[3]).multiply(weights.size[4]).get(&each);
  if (Checked(elements).multiply(each).get(&number) && number <= POLYCONV_MAX_PRODUCTS) return;
  reject(layer,
         "the problem multiplies %" PRId64 " elements by %" PRId64 " weights each; expected at most %" PRId64
         " products",
         elements, each, POLYCONV_MAX_PRODUCTS);
}

} // namespace

void check_memory(const polyconv_problem &p, int32_t layer) {
  for (int entry = 0; entry < p.spatial_dims; ++entry) {
    check_convolved(p, layer, entry);
    check_padded(p, layer, entry);
    check_pooled(p, layer, entry);
  }
  const bool writes_weights = p.direction == POLYCONV_BACKWARD_WEIGHTS;
  const bool writes_input = p.direction == POLYCONV_BACKWARD_DATA, writes_output = p.direction == POLYCONV_FORWARD;
  const bool writes_residual = !writes_output && p.epilogue.residual_from != POLYCONV_RESIDUAL_NONE && !has_pooling(p);
  if (p.has_input_strides != 0)
    writes_input ? check_strides(layer, "input_strides", p.input_strides, p.spatial_dims, false)
                 : check_read_strides(layer, "input_strides", p.input_strides, p.spatial_dims);
  if (p.has_weights_strides != 0)
    check_strides(layer, "weights_strides", p.weights_strides, p.spatial_dims, !writes_weights);
  if (p.has_output_strides != 0)
    writes_output || writes_residual ? check_strides(layer, "output_strides", p.output_strides, p.spatial_dims, false)
                                     : check_read_strides(layer, "output_strides", p.output_strides, p.spatial_dims);

  polyconv_tensor input, weights, output, convolved;
  bool sized = input_tensor(p, &input); // before the call: arguments have no order
  check_extent(layer, "input", input, sized);
  sized = weights_tensor(p, &weights);
  check_extent(layer, "weights", weights, sized);
  sized = convolved_tensor(p, &convolved);
  check_extent(layer, "output before pooling", convolved, sized);
  sized = output_tensor(p, &output);
  check_extent(layer, "output", output, sized);
  check_volumes(p, layer);
  check_products(layer, p.transposed != 0 ? input : convolved, weights);
  if (writes_output) check_no_overlap(layer, "output_strides", output, p.spatial_dims);
  if (writes_input) check_no_overlap(layer, "input_strides", input, p.spatial_dims);
  if (writes_weights) check_no_overlap(layer, "weights_strides", weights, p.spatial_dims);
  if (writes_residual) check_no_overlap(layer, "output_strides", convolved, p.spatial_dims);
}

} // namespace polyconv
