// chain.cpp - validation of what links layers: layer i+1 reads exactly what layer i writes, and a residual
// names a tensor that is there and fits.
// SPDX-License-Identifier: Apache-2.0
#include "problem/checks.hpp"
#include "problem/shape.hpp"
#include "problem/types.hpp"

#include <cinttypes>
#include <string>

namespace polyconv {
namespace {

constexpr const char *kAxisNames[kAxes] = {"batch", "channels", "depth", "height", "width"};

// Two numbers of neighbouring layers that must agree.
void check_equal(int32_t layer, const char *field, int64_t value, int64_t before, const char *what) {
  if (value != before)
    reject(layer, "%s is %" PRId64 "; expected %" PRId64 ", the %s of layer %" PRId32, field, value, before, what,
           layer - 1);
}

void check_spatial(const polyconv_problem &p, const polyconv_problem &before, int32_t layer) {
  for (int entry = 0; entry < p.spatial_dims; ++entry) {
    int64_t size = 0;
    convolved_size(before, entry, &size);
    pooled_size(before, size, entry, &size);
    if (p.input_size[entry] != size)
      reject(layer, "input_size[%d] is %" PRId64 "; expected %" PRId64 ", the output size of layer %" PRId32, entry,
             p.input_size[entry], size, layer - 1);
  }
}

// Whatever passes through a chain has elements, but for an empty batch.
void check_not_empty(const polyconv_problem &p, int32_t layer) {
  if (p.in_channels == 0) reject(layer, "in_channels is 0; expected at least 1 in a chain");
  if (p.out_channels == 0) reject(layer, "out_channels is 0; expected at least 1 in a chain");
  for (int entry = 0; entry < p.spatial_dims; ++entry)
    if (p.input_size[entry] == 0) reject(layer, "input_size[%d] is 0; expected at least 1 in a chain", entry);
}

void check_follows(const polyconv_problem &p, const polyconv_problem &before, int32_t layer) {
  check_equal(layer, "spatial_dims", p.spatial_dims, before.spatial_dims, "spatial_dims");
  check_equal(layer, "batch", p.batch, before.batch, "batch");
  check_equal(layer, "in_channels", p.in_channels, before.out_channels, "out_channels");
  check_spatial(p, before, layer);
  if (p.input_type != before.output_type)
    reject(layer, "input_type is %s; expected %s, the output_type of layer %" PRId32, polyconv_type_name(p.input_type),
           polyconv_type_name(before.output_type), layer - 1);
  check_equal(layer, "input_layout", p.input_layout, before.output_layout, "output_layout");
  if (before.has_output_strides != 0)
    reject(layer - 1, "has_output_strides is 1; expected 0 where layer %" PRId32 " reads the output", layer);
  if (p.has_input_strides != 0)
    reject(layer, "has_input_strides is 1; expected 0 where the input is the output of layer %" PRId32, layer - 1);
}

// The residual must have the shape and type of this layer's output before pooling.
void check_residual_fits(const polyconv_problem &p, int32_t layer, const polyconv_tensor &source,
                         const std::string &name) {
  polyconv_tensor wanted;
  convolved_tensor(p, &wanted);
  for (int axis = 0; axis < kAxes; ++axis)
    if (source.size[axis] != wanted.size[axis])
      reject(layer,
             "epilogue.residual_from names %s, whose %s is %" PRId64 "; expected %" PRId64
             " as in this layer's output before pooling",
             name.c_str(), kAxisNames[axis], source.size[axis], wanted.size[axis]);
  if (source.type != wanted.type)
    reject(layer, "epilogue.residual_from names %s of type %s; expected %s, this layer's output_type", name.c_str(),
           polyconv_type_name(source.type), polyconv_type_name(wanted.type));
}

void check_residual_source(const std::vector<polyconv_problem> &problems, int32_t layer) {
  const polyconv_problem &p = problems[static_cast<size_t>(layer)];
  const int32_t from = p.epilogue.residual_from;
  polyconv_tensor source;
  if (from == POLYCONV_RESIDUAL_INPUT) {
    input_tensor(problems[0], &source);
    check_residual_fits(p, layer, source, "the input");
  } else if (from >= POLYCONV_RESIDUAL_LAYER) {
    const int32_t earlier = from - POLYCONV_RESIDUAL_LAYER;
    if (earlier >= layer)
      reject(layer, "epilogue.residual_from is 16 + %" PRId32 "; expected a layer before this one", earlier);
    output_tensor(problems[static_cast<size_t>(earlier)], &source);
    check_residual_fits(p, layer, source, "layer " + std::to_string(earlier));
  }
}

} // namespace

void check_links(const std::vector<polyconv_problem> &problems) {
  const int32_t count = static_cast<int32_t>(problems.size());
  for (int32_t layer = 0; layer < count && count > 1; ++layer)
    check_not_empty(problems[static_cast<size_t>(layer)], layer);
  for (int32_t layer = 0; layer < count && count > 1; ++layer)
    if (problems[static_cast<size_t>(layer)].direction != POLYCONV_FORWARD)
      reject(layer, "direction is %" PRId32 "; expected 0 (forward) in a chain",
             problems[static_cast<size_t>(layer)].direction);
  for (int32_t layer = 1; layer < count; ++layer)
    check_follows(problems[static_cast<size_t>(layer)], problems[static_cast<size_t>(layer - 1)], layer);
  for (int32_t layer = 0; layer < count; ++layer) check_residual_source(problems, layer);
}

} // namespace polyconv
