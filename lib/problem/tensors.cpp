// tensors.cpp - a valid problem's tensors as the caller knows them: polyconv_problem_tensor, and the sizes
// of what polyconv_convolve copies.
// SPDX-License-Identifier: Apache-2.0
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "problem/types.hpp"

namespace polyconv {
namespace {

polyconv_tensor vector_of(int32_t type, int64_t channels) {
  polyconv_tensor tensor = {};
  tensor.type = type;
  for (int axis = 0; axis < kAxes; ++axis) tensor.size[axis] = tensor.stride[axis] = 1;
  tensor.size[1] = channels;
  tensor.stride[0] = channels;
  return tensor;
}

} // namespace

bool tensor_of(const polyconv_problem &problem, int32_t which, polyconv_tensor *tensor) {
  TypeRow row = {};
  row_of(problem, &row);
  const bool saves = problem.direction == POLYCONV_FORWARD || reads_saved(problem);
  switch (which) {
    case POLYCONV_TENSOR_INPUT: return input_tensor(problem, tensor);
    case POLYCONV_TENSOR_WEIGHTS: return weights_tensor(problem, tensor);
    case POLYCONV_TENSOR_BIAS:
      *tensor = vector_of(row.bias_type, problem.out_channels);
      return problem.epilogue.has_bias != 0;
    case POLYCONV_TENSOR_SCALE:
      *tensor = vector_of(row.scale_type, problem.out_channels);
      return problem.epilogue.has_scale != 0;
    case POLYCONV_TENSOR_RESIDUAL:
    case POLYCONV_TENSOR_RESIDUAL_GRADIENT:
      // Only a buffer of its own: the chain's input and a layer's output are tensors already.
      return problem.epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER &&
             (problem.direction == POLYCONV_FORWARD) == (which == POLYCONV_TENSOR_RESIDUAL) &&
             convolved_tensor(problem, tensor);
    case POLYCONV_TENSOR_SLOPE:
      *tensor = vector_of(row.scale_type, problem.out_channels);
      return problem.epilogue.activation == POLYCONV_ACT_PRELU;
    case POLYCONV_TENSOR_WEIGHTS_ZERO_POINT:
      *tensor = vector_of(problem.weights_type, problem.out_channels);
      return problem.has_weights_zero_points != 0;
    case POLYCONV_TENSOR_OUTPUT: return output_tensor(problem, tensor);
    case POLYCONV_TENSOR_ARGMAX:
      return saves && problem.epilogue.pool.kind == POLYCONV_POOL_MAX &&
             saved_tensor(problem, POLYCONV_SAVE_ARGMAX, tensor);
    case POLYCONV_TENSOR_PRE_ACTIVATION: return saves && saved_tensor(problem, POLYCONV_SAVE_PRE_ACTIVATION, tensor);
    default: return false;
  }
}

int64_t bytes_of(const polyconv_tensor &tensor) {
  int64_t elements = 0;
  extent_of(tensor, &elements); // of a valid problem: no overflow
  const TypeInfo *type = type_info(tensor.type);
  return type == nullptr ? 0 : elements * type->size;
}

} // namespace polyconv
