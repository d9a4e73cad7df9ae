// problem.cpp - the extern "C" wall of the problem: init, parse, format, validate, tensors, flops, types.
// SPDX-License-Identifier: Apache-2.0
#include "problem/problem.hpp"
#include "base/status.hpp"
#include "problem/checks.hpp"
#include "problem/shape.hpp"
#include "problem/types.hpp"
#include "token/token.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

using namespace polyconv;

namespace {

constexpr const char *kTensorNames[] = {"input",
                                        "weights",
                                        "bias",
                                        "scale",
                                        "residual",
                                        "output",
                                        "argmax",
                                        "pre-activation",
                                        "slope",
                                        "weights zero point",
                                        "residual gradient"};

// One problem, valid wherever it stands in a chain.
polyconv_problem copy_checked(const polyconv_problem *problem) {
  const polyconv_problem copy = copy_problems(problem, 1).front();
  check_layer(copy, 0);
  return copy;
}

void require(const void *pointer, const char *name) {
  if (pointer == nullptr) throw failure(POLYCONV_INVALID_ARGUMENT, "%s is NULL; expected a pointer", name);
}

// A whole problem to a caller whose struct has `size` bytes: an older one is filled to its end, of a newer one the rest
// is 0. Fields that an older struct lacks must have their defaults, which init and the tokens of its time give them.
void hand_out(const polyconv_problem &whole, size_t size, polyconv_problem *problem) {
  char *bytes = reinterpret_cast<char *>(problem);
  std::memset(bytes, 0, size);
  std::memcpy(bytes, &whole, std::min(size, sizeof whole));
  std::memcpy(bytes, &size, sizeof size);
}

void parse_to(const char *token, polyconv_problem *problem, size_t size) {
  require(token, "token");
  require(problem, "problem");
  if (size < kOldestProblem)
    throw failure(POLYCONV_INVALID_ARGUMENT, "size is %zu; expected the sizeof of a polyconv_problem, at least %zu",
                  size, kOldestProblem);
  polyconv_problem parsed = parse_token(token);
  if (size < sizeof parsed) { // read back as this library will
    polyconv_problem cut = parsed, whole;
    cut.struct_size = size;
    whole = copy_problems(&cut, 1).front();
    if (format_token(whole) != format_token(parsed))
      throw failure(POLYCONV_INVALID_ARGUMENT,
                    "token is \"%.200s\"; expected one without fields that polyconv_problem has not had in %zu bytes: "
                    "compile the program with a newer polyconv.h",
                    token, size);
  }
  hand_out(parsed, size, problem);
}

} // namespace

// The names of the header are macros for the sized functions; here they are the symbols of 0.1.
#undef polyconv_problem_init
#undef polyconv_problem_parse

extern "C" {

void polyconv_problem_init(polyconv_problem *problem) {
  polyconv_problem_init_sized(problem, kOldestProblem);
}

void polyconv_problem_init_sized(polyconv_problem *problem, size_t size) {
  if (problem != nullptr && size >= kOldestProblem) hand_out(default_problem(), size, problem);
}

polyconv_status polyconv_problem_parse(const char *token, polyconv_problem *problem) {
  return guarded([&] { parse_to(token, problem, kOldestProblem); });
}

polyconv_status polyconv_problem_parse_sized(const char *token, polyconv_problem *problem, size_t size) {
  return guarded([&] { parse_to(token, problem, size); });
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
    if (which < POLYCONV_TENSOR_INPUT || which > POLYCONV_TENSOR_RESIDUAL_GRADIENT)
      throw failure(POLYCONV_INVALID_ARGUMENT, "which is %" PRId32 "; expected 0..%d", which,
                    POLYCONV_TENSOR_RESIDUAL_GRADIENT);
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
