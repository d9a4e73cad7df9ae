// problems.cpp - see problems.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "problems.hpp"

#include "guarded.hpp"

#include <algorithm>

namespace polyconv::check {

Row row_of(const polyconv_problem &p) {
  if (!is_integer(p.input_type)) return Row::Float;
  return is_integer(p.weights_type) ? Row::Quantised : Row::Image;
}

int32_t sum_type(const polyconv_problem &p) {
  if (row_of(p) == Row::Quantised) return POLYCONV_S32;
  return p.input_type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
}

const char *tensor_name(int32_t which) {
  static const char *const names[] = {"input",
                                      "weights",
                                      "bias",
                                      "scale",
                                      "residual",
                                      "output",
                                      "saved (argmax)",
                                      "saved (pre-activation)",
                                      "slope",
                                      "weights' zero points",
                                      "residual's gradient"};
  return names[which];
}

polyconv_tensor shape_of(const polyconv_problem &problem, int32_t which) {
  polyconv_tensor tensor;
  require(polyconv_problem_tensor(&problem, which, &tensor, nullptr), "polyconv_problem_tensor");
  return tensor;
}

std::vector<Tensor> tensors_of(const std::vector<polyconv_problem> &problems, int32_t save) {
  const int32_t direction = problems[0].direction, last = static_cast<int32_t>(problems.size()) - 1;
  std::vector<Tensor> tensors;
  const auto add = [&](int32_t which, int32_t layer, bool written) {
    Tensor t{which, layer, written, {}, 0, {}, {}};
    const polyconv_problem &p = problems[static_cast<size_t>(layer)];
    if (polyconv_problem_tensor(&p, which, &t.shape, &t.bytes) == POLYCONV_SUCCESS) tensors.push_back(t);
  };
  add(POLYCONV_TENSOR_INPUT, 0, direction == POLYCONV_BACKWARD_DATA);
  add(POLYCONV_TENSOR_OUTPUT, last, direction == POLYCONV_FORWARD);
  for (int32_t layer = 0; layer <= last; ++layer) {
    add(POLYCONV_TENSOR_WEIGHTS, layer, direction == POLYCONV_BACKWARD_WEIGHTS);
    add(POLYCONV_TENSOR_BIAS, layer, direction == POLYCONV_BACKWARD_WEIGHTS);
    add(POLYCONV_TENSOR_SCALE, layer, false);
    add(POLYCONV_TENSOR_RESIDUAL, layer, false);
    add(POLYCONV_TENSOR_RESIDUAL_GRADIENT, layer, true);
    add(POLYCONV_TENSOR_SLOPE, layer, false);
    add(POLYCONV_TENSOR_WEIGHTS_ZERO_POINT, layer, false);
    if (save == POLYCONV_SAVE_ARGMAX) add(POLYCONV_TENSOR_ARGMAX, layer, true);
    if (save == POLYCONV_SAVE_PRE_ACTIVATION) add(POLYCONV_TENSOR_PRE_ACTIVATION, layer, true);
  }
  return tensors;
}

Tensor *find(std::vector<Tensor> &tensors, int32_t which, int32_t layer) {
  for (Tensor &tensor : tensors)
    if (tensor.which == which && tensor.layer == layer) return &tensor;
  return nullptr;
}

const Tensor *find(const std::vector<Tensor> &tensors, int32_t which, int32_t layer) {
  return find(const_cast<std::vector<Tensor> &>(tensors), which, layer);
}

polyconv_tensor convolved_shape(const polyconv_problem &problem) {
  polyconv_problem p = densely(problem);
  p.epilogue.pool.kind = POLYCONV_POOL_NONE;
  return shape_of(p, POLYCONV_TENSOR_OUTPUT);
}

double products(const polyconv_problem &p) {
  double taps = 1, folds = 1, read = static_cast<double>(p.batch);
  const bool mirrored = p.pad_mode != POLYCONV_PAD_ZERO && p.pad_mode != POLYCONV_PAD_CONSTANT;
  const polyconv_tensor output = convolved_shape(p);
  for (int axis = 0; axis < p.spatial_dims; ++axis) {
    taps *= static_cast<double>(p.kernel_size[axis]);
    const int64_t out = output.size[5 - p.spatial_dims + axis];
    read *= static_cast<double>(p.transposed ? p.input_size[axis] : out);
    if (mirrored)
      folds *= static_cast<double>(1 + std::max<int64_t>(p.pad_begin[axis], 0) + std::max<int64_t>(p.pad_end[axis], 0));
  }
  if (p.direction == POLYCONV_BACKWARD_WEIGHTS) return read;
  const bool over_input = p.direction == POLYCONV_FORWARD; // what is summed over: input or output channels
  const bool scatters = (p.direction == POLYCONV_BACKWARD_DATA) != (p.transposed != 0);
  const int64_t channels = (over_input ? p.in_channels : p.out_channels) / p.groups;
  return static_cast<double>(channels) * taps * (scatters ? folds : 1);
}

polyconv_problem densely(const polyconv_problem &problem) {
  polyconv_problem p = problem;
  p.input_layout = p.weights_layout = p.output_layout = POLYCONV_CHANNELS_FIRST;
  p.has_input_strides = p.has_weights_strides = p.has_output_strides = 0;
  if (p.epilogue.residual_from != POLYCONV_RESIDUAL_NONE) p.epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
  return p;
}

polyconv_problem bare(const polyconv_problem &problem, int32_t type) {
  polyconv_problem p = densely(problem);
  p.separable = 0;
  p.epilogue.activation = POLYCONV_ACT_NONE;
  p.epilogue.pool.kind = POLYCONV_POOL_NONE;
  p.epilogue.out_scale = 1;
  p.epilogue.out_zero_point = p.epilogue.residual_zero_point = 0;
  p.pad_value = stored_as(p.input_type, p.pad_value);
  p.input_type = p.weights_type = p.output_type = type;
  return p;
}

} // namespace polyconv::check
