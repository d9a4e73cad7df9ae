// tensors.cpp - the tensors that a layer or chain needs from its caller, and what follows from their sizes.
// SPDX-License-Identifier: Apache-2.0
#include "subject/tensors.hpp"

#include <algorithm>

#include "api/handles.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

bool writes(const polyconv_problem &problem, int32_t which) {
  if (which == POLYCONV_TENSOR_RESIDUAL_GRADIENT) return true;
  switch (problem.direction) {
    case POLYCONV_BACKWARD_DATA: return which == POLYCONV_TENSOR_INPUT;
    case POLYCONV_BACKWARD_WEIGHTS: return which == POLYCONV_TENSOR_WEIGHTS || which == POLYCONV_TENSOR_BIAS;
    default: return which == POLYCONV_TENSOR_OUTPUT;
  }
}

} // namespace

std::string TensorUse::name() const {
  switch (which) {
    case POLYCONV_TENSOR_INPUT: return "input";
    case POLYCONV_TENSOR_WEIGHTS: return "weights";
    case POLYCONV_TENSOR_BIAS: return "bias";
    case POLYCONV_TENSOR_SCALE: return "scale";
    case POLYCONV_TENSOR_RESIDUAL: return "residual";
    case POLYCONV_TENSOR_SLOPE: return "slope";
    case POLYCONV_TENSOR_WEIGHTS_ZERO_POINT: return "weights_zero_point";
    case POLYCONV_TENSOR_RESIDUAL_GRADIENT: return "residual_gradient";
    default: return "output";
  }
}

std::string TensorUse::role() const {
  const bool whole_chain = which == POLYCONV_TENSOR_INPUT || which == POLYCONV_TENSOR_OUTPUT;
  return name() + (whole_chain ? "" : std::to_string(layer));
}

bool TensorUse::per_run() const {
  return which == POLYCONV_TENSOR_INPUT || which == POLYCONV_TENSOR_OUTPUT || which == POLYCONV_TENSOR_RESIDUAL ||
         written;
}

std::vector<TensorUse> tensors_of(const Work &work) {
  std::vector<TensorUse> uses;
  const auto last = static_cast<int32_t>(work.problems.size()) - 1;
  for (int32_t layer = 0; layer <= last; ++layer) {
    const polyconv_problem &problem = work.problems[layer];
    const auto add = [&](int32_t which, bool wanted) {
      if (!wanted) return;
      polyconv_tensor tensor;
      int64_t bytes = 0;
      require(polyconv_problem_tensor(&problem, which, &tensor, &bytes));
      const auto size = static_cast<int64_t>(polyconv_type_size(tensor.type));
      uses.push_back({which, layer, tensor.type, bytes, writes(problem, which), tensor.offset * size});
    };
    add(POLYCONV_TENSOR_INPUT, layer == 0);
    add(POLYCONV_TENSOR_WEIGHTS, true);
    add(POLYCONV_TENSOR_BIAS, problem.epilogue.has_bias != 0);
    add(POLYCONV_TENSOR_SCALE, problem.epilogue.has_scale != 0);
    const bool forward = problem.direction == POLYCONV_FORWARD;
    const bool adds = problem.epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER;
    add(forward ? POLYCONV_TENSOR_RESIDUAL : POLYCONV_TENSOR_RESIDUAL_GRADIENT, adds);
    add(POLYCONV_TENSOR_SLOPE, problem.epilogue.activation == POLYCONV_ACT_PRELU);
    add(POLYCONV_TENSOR_WEIGHTS_ZERO_POINT, problem.has_weights_zero_points != 0);
    add(POLYCONV_TENSOR_OUTPUT, layer == last);
  }
  return uses;
}

void set_pointer(polyconv_buffers &buffers, const TensorUse &use, void *first) {
  void *pointer = first == nullptr ? nullptr : static_cast<char *>(first) + use.shift;
  switch (use.which) {
    case POLYCONV_TENSOR_INPUT: buffers.input = pointer; break;
    case POLYCONV_TENSOR_WEIGHTS: buffers.weights[use.layer] = pointer; break;
    case POLYCONV_TENSOR_BIAS: buffers.bias[use.layer] = pointer; break;
    case POLYCONV_TENSOR_SCALE: buffers.scale[use.layer] = pointer; break;
    case POLYCONV_TENSOR_RESIDUAL: buffers.residual[use.layer] = pointer; break;
    case POLYCONV_TENSOR_SLOPE: buffers.slope[use.layer] = pointer; break;
    case POLYCONV_TENSOR_WEIGHTS_ZERO_POINT: buffers.weights_zero_point[use.layer] = pointer; break;
    case POLYCONV_TENSOR_RESIDUAL_GRADIENT: buffers.residual_gradient[use.layer] = pointer; break;
    default: buffers.output = pointer; break;
  }
}

void *pointer_of(const polyconv_buffers &buffers, const TensorUse &use) {
  switch (use.which) {
    case POLYCONV_TENSOR_INPUT: return buffers.input;
    case POLYCONV_TENSOR_WEIGHTS: return buffers.weights[use.layer];
    case POLYCONV_TENSOR_BIAS: return buffers.bias[use.layer];
    case POLYCONV_TENSOR_SCALE: return const_cast<void *>(buffers.scale[use.layer]);
    case POLYCONV_TENSOR_RESIDUAL: return const_cast<void *>(buffers.residual[use.layer]);
    case POLYCONV_TENSOR_SLOPE: return const_cast<void *>(buffers.slope[use.layer]);
    case POLYCONV_TENSOR_WEIGHTS_ZERO_POINT: return const_cast<void *>(buffers.weights_zero_point[use.layer]);
    case POLYCONV_TENSOR_RESIDUAL_GRADIENT: return buffers.residual_gradient[use.layer];
    default: return buffers.output;
  }
}

int64_t tensor_bytes(const Work &work) {
  int64_t bytes = 0;
  for (const TensorUse &use : tensors_of(work)) bytes += use.bytes;
  return bytes;
}

double compulsory_bytes(const Work &work) {
  double bytes = 0;
  for (const Work &layer : work.layers) bytes += static_cast<double>(layer.count) * compulsory_bytes(layer);
  if (work.is_network()) return bytes;
  for (const TensorUse &use : tensors_of(work))
    if (use.which == POLYCONV_TENSOR_INPUT || use.which == POLYCONV_TENSOR_OUTPUT ||
        use.which == POLYCONV_TENSOR_WEIGHTS)
      bytes += static_cast<double>(use.bytes);
  return bytes;
}

double flops_of(const Work &work) {
  double total = 0;
  for (const Work &layer : work.layers) total += static_cast<double>(layer.count) * flops_of(layer);
  for (const polyconv_problem &problem : work.problems) {
    double flops = 0;
    require(polyconv_problem_flops(&problem, &flops));
    total += flops;
  }
  return total;
}

std::string more_than(int64_t bytes, int64_t memory_limit) {
  return show_bytes(static_cast<double>(bytes)) + ", more than the " + show_bytes(static_cast<double>(memory_limit)) +
         " that this machine has to spare";
}

} // namespace polyconv::bench
