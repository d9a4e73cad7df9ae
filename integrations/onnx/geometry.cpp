// geometry.cpp - padding that ONNX leaves to the size of the input (auto_pad, output_shape) becomes numbers here.
//
// Source: ONNX's operator documentation, Conv and ConvTranspose, version 22. Where an output_shape is larger than what
// the rest gives, ONNX Runtime adds no padding and the rest of the output is a sum over nothing; so does polyconv's
// negative padding.
//
// SPDX-License-Identifier: Apache-2.0
#include "geometry.hpp"

#include <algorithm>
#include <stdexcept>

namespace polyconv_onnx {
namespace {

std::string words(const std::vector<int64_t> &sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

// Numbers between which sums of products stay inside 64 bits. polyconv bounds them too, but after they were computed
// with.
void require_small(const char *what, int64_t number, int64_t least) {
  constexpr int64_t kMost = INT64_C(1) << 30;
  if (number < least || number > kMost)
    throw std::invalid_argument("polyconv: " + std::string(what) + " is " + std::to_string(number) + ", expected " +
                                std::to_string(least) + " to " + std::to_string(kMost));
}

void require_small(const polyconv::Problem &problem, size_t i) {
  require_small("a size", problem.input_size[i], 0);
  require_small("a size of the kernel", problem.kernel_size[i], 1);
  require_small("a stride", problem.stride[i], 1);
  require_small("a dilation", problem.dilation[i], 1);
}

// Splits padding in two: an odd one goes to the end where `late`, else to the beginning.
void split(int64_t total, bool late, int64_t &begin, int64_t &end) {
  if (total < 0) {
    begin = 0, end = total;
    return;
  }
  begin = late ? total / 2 : total - total / 2;
  end = total - begin;
}

void place_forward(const Geometry &geometry, polyconv::Problem &problem, size_t i) {
  if (geometry.auto_pad != "SAME_UPPER" && geometry.auto_pad != "SAME_LOWER") return;
  require_small(problem, i);
  const int64_t size = problem.input_size[i], stride = problem.stride[i];
  const int64_t reach = problem.dilation[i] * (problem.kernel_size[i] - 1) + 1;
  const int64_t outputs = (size + stride - 1) / stride;
  split(std::max<int64_t>(0, (outputs - 1) * stride + reach - size), geometry.auto_pad == "SAME_UPPER",
        problem.pad_begin[i], problem.pad_end[i]);
}

void place_transposed(const Geometry &geometry, polyconv::Problem &problem, size_t i) {
  problem.output_padding[i] = geometry.output_padding[i];
  const bool late = geometry.auto_pad == "SAME_UPPER";
  if (geometry.output_shape.empty() && !late && geometry.auto_pad != "SAME_LOWER") return;
  require_small(problem, i);
  require_small("an output_padding", problem.output_padding[i], 0);
  const int64_t reach = problem.dilation[i] * (problem.kernel_size[i] - 1) + 1;
  const int64_t whole = (problem.input_size[i] - 1) * problem.stride[i] + reach + problem.output_padding[i];
  if (!geometry.output_shape.empty()) {
    require_small("a size of output_shape", geometry.output_shape[i], 0);
    split(whole - geometry.output_shape[i], late, problem.pad_begin[i], problem.pad_end[i]);
    return;
  }
  split(whole - problem.input_size[i] * problem.stride[i], late, problem.pad_begin[i], problem.pad_end[i]);
}

} // namespace

polyconv::Problem convolution(const Geometry &geometry, const std::vector<int64_t> &input,
                              const std::vector<int64_t> &weights) {
  const size_t axes = geometry.strides.size();
  if (input.size() != axes + 2 || weights.size() != axes + 2)
    throw std::invalid_argument("polyconv: input " + words(input) + " and weights " + words(weights) +
                                ", expected both of rank " + std::to_string(axes + 2));
  require_small("group", geometry.groups, 1);
  require_small("a size of the weights", weights[1], 0);
  polyconv::Problem problem;
  problem.transposed = geometry.transposed;
  problem.spatial_dims = static_cast<int32_t>(axes);
  problem.batch = input[0], problem.in_channels = input[1], problem.groups = geometry.groups;
  problem.out_channels = geometry.transposed ? weights[1] * geometry.groups : weights[0];
  const int64_t expected = geometry.transposed ? weights[0] : weights[1] * geometry.groups;
  if (input[1] != expected)
    throw std::invalid_argument("polyconv: input " + words(input) + " has " + std::to_string(input[1]) +
                                " channels, weights " + words(weights) + " with group " +
                                std::to_string(geometry.groups) + " expect " + std::to_string(expected));
  const bool explicit_pads = geometry.auto_pad == "NOTSET" || geometry.auto_pad.empty();
  for (size_t i = 0; i < axes; ++i) {
    problem.input_size[i] = input[i + 2], problem.kernel_size[i] = weights[i + 2];
    problem.stride[i] = geometry.strides[i], problem.dilation[i] = geometry.dilations[i];
    problem.pad_begin[i] = explicit_pads ? geometry.pads[i] : 0;
    problem.pad_end[i] = explicit_pads ? geometry.pads[axes + i] : 0;
    if (geometry.transposed)
      place_transposed(geometry, problem, i);
    else
      place_forward(geometry, problem, i);
  }
  return problem;
}

namespace {

// The convolution's own result; empty where the problem is none, which planning tells.
std::vector<int64_t> known_sizes(const polyconv::Problem &problem) {
  try {
    return output_sizes(problem);
  } catch (const polyconv::Error &) {
    return {};
  }
}

} // namespace

void add_pool(const Window &window, polyconv::Problem &problem) {
  if (window.kind == POLYCONV_POOL_NONE) return;
  const size_t axes = window.size.size();
  const std::vector<int64_t> pooled = known_sizes(problem);
  polyconv_pool &pool = problem.epilogue.pool;
  pool.kind = window.kind;
  pool.count_include_pad = window.count_include_pad;
  problem.pool_ceil = window.ceil;
  for (size_t i = 0; i < axes; ++i) {
    pool.window[i] = window.size[i], pool.stride[i] = window.strides[i];
    pool.pad_begin[i] = window.pads[i], pool.pad_end[i] = window.pads[axes + i];
    problem.pool_dilation[i] = window.dilations[i];
    if (pooled.empty() || window.dilations[i] != 1) continue;
    // ONNX Runtime rounds the number of windows towards zero: one that overhangs by less than a stride is taken, of
    // what is there.
    const int64_t there = pooled[i + 2] + pool.pad_begin[i] + pool.pad_end[i];
    if (there > 0 && there < pool.window[i] && pool.window[i] - there < pool.stride[i]) pool.window[i] = there;
  }
}

std::vector<int64_t> output_sizes(const polyconv::Problem &problem) {
  const polyconv_tensor tensor = problem.tensor(POLYCONV_TENSOR_OUTPUT); // N C D H W, absent axes 1
  std::vector<int64_t> sizes(tensor.size, tensor.size + 2);
  sizes.insert(sizes.end(), tensor.size + 5 - problem.spatial_dims, tensor.size + 5);
  return sizes;
}

} // namespace polyconv_onnx
