// api_problem.cpp - the extern "C" wall of the problem: init, parse, format, validate, tensors, flops, types.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "problem.hpp"
#include "problem_checks.hpp"
#include "problem_shape.hpp"
#include "problem_types.hpp"
#include "status.hpp"

using namespace polyconv;

namespace {

constexpr const char *kTensorNames[] = {"input",    "weights", "bias",   "scale",
                                        "residual", "output",  "argmax", "pre-activation"};

// One problem, valid wherever it stands in a chain.
polyconv_problem copy_checked(const polyconv_problem *problem) {
  const polyconv_problem copy = copy_problems(problem, 1).front();
  check_layer(copy, 0);
  return copy;
}

void require(const void *pointer, const char *name) {
  if (pointer == nullptr) throw failure(POLYCONV_INVALID_ARGUMENT, "%s is NULL; expected a pointer", name);
}

} // namespace

extern "C" {

// This symbol fills the struct of 0.1 for ever: when polyconv_problem grows, the header names a new symbol by macro,
// so that a program built with the old header is never written beyond its struct. parse goes with it.
void polyconv_problem_init(polyconv_problem *problem) {
  if (problem == nullptr) return;
  std::memset(problem, 0, sizeof *problem);
  problem->struct_size = sizeof *problem;
  problem->spatial_dims = 2;
  problem->batch = problem->in_channels = problem->out_channels = problem->groups = 1;
  for (int entry = 0; entry < POLYCONV_MAX_SPATIAL; ++entry)
    problem->kernel_size[entry] = problem->stride[entry] = problem->dilation[entry] = 1;
  problem->input_type = problem->weights_type = problem->output_type = POLYCONV_F32;
  problem->epilogue.residual_scale = 1;
  problem->epilogue.out_scale = 1;
}

polyconv_status polyconv_problem_parse(const char *token, polyconv_problem *problem) {
  return guarded([&] {
    require(token, "token");
    require(problem, "problem");
    *problem = parse_token(token);
  });
}

polyconv_status polyconv_problem_format(const polyconv_problem *problem, char *buffer, size_t size, size_t *needed) {
  return guarded([&] {
    const std::string token = format_token(copy_checked(problem));
    if (size > 0) {
      require(buffer, "buffer");
      if (size <= token.size())
        throw failure(POLYCONV_INVALID_ARGUMENT, "size is %zu; expected at least %zu bytes for this problem's token",
                      size, token.size() + 1);
      std::memcpy(buffer, token.c_str(), token.size() + 1);
    }
    if (needed != nullptr) *needed = token.size() + 1;
  });
}

polyconv_status polyconv_problem_validate(const polyconv_problem *problems, int32_t count) {
  return guarded([&] { validate(copy_problems(problems, count)); });
}

polyconv_status polyconv_problem_tensor(const polyconv_problem *problem, int32_t which, polyconv_tensor *tensor,
                                        int64_t *bytes) {
  return guarded([&] {
    const polyconv_problem copy = copy_checked(problem);
    if (which < POLYCONV_TENSOR_INPUT || which > POLYCONV_TENSOR_PRE_ACTIVATION)
      throw failure(POLYCONV_INVALID_ARGUMENT, "which is %" PRId32 "; expected 0..%d", which,
                    POLYCONV_TENSOR_PRE_ACTIVATION);
    polyconv_tensor found = {};
    if (!tensor_of(copy, which, &found))
      throw failure(POLYCONV_INVALID_ARGUMENT,
                    "which is %" PRId32 "; expected a tensor of the problem, which has no %s", which,
                    kTensorNames[which]);
    if (tensor != nullptr) *tensor = found;
    if (bytes != nullptr) *bytes = bytes_of(found);
  });
}

polyconv_status polyconv_problem_flops(const polyconv_problem *problem, double *flops) {
  return guarded([&] {
    const polyconv_problem copy = copy_checked(problem);
    require(flops, "flops");
    // Each element of the convolution's output, which is a transposed problem's input, takes every tap once.
    polyconv_tensor sums, weights;
    if (copy.transposed != 0)
      input_tensor(copy, &sums);
    else
      convolved_tensor(copy, &sums);
    weights_tensor(copy, &weights);
    double products = 2;
    for (int64_t size : sums.size) products *= static_cast<double>(size);
    for (int axis = 1; axis < kAxes; ++axis) products *= static_cast<double>(weights.size[axis]);
    *flops = products;
  });
}

size_t polyconv_type_size(int32_t type) {
  const TypeInfo *info = type_info(type);
  return info == nullptr ? 0 : static_cast<size_t>(info->size);
}

const char *polyconv_type_name(int32_t type) {
  const TypeInfo *info = type_info(type);
  return info == nullptr ? "?" : info->name;
}

} // extern "C"
