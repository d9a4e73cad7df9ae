// plan_job.hpp - a problem or chain with data, planned and run under any options: what the tests of selection, plans
// and runs share. Everything holds small integers, so every right answer is the same to the last bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fake_backends/fakes.hpp"
#include "platform.hpp"

namespace job {

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

inline std::string error() {
  return polyconv_last_error();
}

// Loads a fake backend once a process.
inline void load(const std::string &fake) {
  const polyconv_status status = polyconv_backend_load(fakes::path(fake).c_str());
  const bool there = status == POLYCONV_INVALID_ARGUMENT && contains(polyconv_last_error(), "already loaded");
  REQUIRE_MESSAGE((status == POLYCONV_SUCCESS || there), error());
}

inline polyconv_problem problem(const std::string &token) {
  polyconv_problem p;
  REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &p) == POLYCONV_SUCCESS, error());
  return p;
}

inline polyconv_options options(const char *kernel = nullptr) {
  polyconv_options o;
  polyconv_options_init(&o);
  o.kernel = kernel;
  return o;
}

struct PlanDeleter {
  void operator()(polyconv_plan *plan) const { polyconv_plan_destroy(plan); }
};
struct WeightsDeleter {
  void operator()(polyconv_weights *weights) const { polyconv_weights_destroy(weights); }
};
using Plan = std::unique_ptr<polyconv_plan, PlanDeleter>;
using Weights = std::unique_ptr<polyconv_weights, WeightsDeleter>;

inline polyconv_plan_info info(const Plan &plan) {
  polyconv_plan_info i{};
  i.struct_size = sizeof i;
  REQUIRE(polyconv_plan_get_info(plan.get(), &i) == POLYCONV_SUCCESS);
  return i;
}

// Plans, or leaves the plan empty with *status and polyconv_last_error saying why.
inline Plan try_plan(const std::vector<polyconv_problem> &problems, const polyconv_options &o,
                     polyconv_status *status = nullptr, const polyconv_device *device = nullptr) {
  polyconv_plan *plan = nullptr;
  const polyconv_status result =
      polyconv_plan_create(device, problems.data(), static_cast<int32_t>(problems.size()), &o, &plan);
  if (status != nullptr) *status = result;
  return Plan(plan);
}

inline Plan plan(const std::vector<polyconv_problem> &problems, const polyconv_options &o) {
  polyconv_status status = POLYCONV_SUCCESS;
  Plan made = try_plan(problems, o, &status);
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, error());
  return made;
}

// The kernel that planning chooses, or "status: sentence".
inline std::string chosen(const std::vector<polyconv_problem> &problems, const polyconv_options &o) {
  polyconv_status status = POLYCONV_SUCCESS;
  const Plan made = try_plan(problems, o, &status);
  if (status != POLYCONV_SUCCESS) return std::string(polyconv_status_string(status)) + ": " + polyconv_last_error();
  return info(made).kernel;
}

// Memory aligned as workspaces must be, poisoned.
struct Aligned {
  explicit Aligned(size_t bytes) : size(bytes), data(nullptr, polyconv_test::free_aligned) {
    const size_t rounded = (bytes + POLYCONV_ALIGNMENT) / POLYCONV_ALIGNMENT * POLYCONV_ALIGNMENT;
    data.reset(polyconv_test::allocate_aligned(POLYCONV_ALIGNMENT, rounded));
    std::memset(data.get(), 0xff, rounded);
  }
  size_t size;
  std::unique_ptr<void, void (*)(void *)> data;
};

// One tensor's bytes, filled with integers from -3 to 3 (or poison where it is written).
inline std::vector<char> fill(const polyconv_problem &p, int32_t which, std::mt19937 *random) {
  polyconv_tensor tensor;
  int64_t bytes = 0;
  if (polyconv_problem_tensor(&p, which, &tensor, &bytes) != POLYCONV_SUCCESS) return {};
  std::vector<char> data(static_cast<size_t>(bytes), static_cast<char>(0xff));
  if (random == nullptr) return data;
  std::uniform_int_distribution<int> small(-3, 3);
  const size_t size = polyconv_type_size(tensor.type);
  for (size_t i = 0; i + size <= data.size(); i += size) {
    const int value = small(*random);
    const float f = static_cast<float>(value);
    const double d = value;
    const int8_t s8 = static_cast<int8_t>(value);
    const int32_t s32 = value;
    const void *from = tensor.type == POLYCONV_F64   ? static_cast<const void *>(&d)
                       : tensor.type == POLYCONV_F32 ? static_cast<const void *>(&f)
                       : tensor.type == POLYCONV_S32 ? static_cast<const void *>(&s32)
                                                     : static_cast<const void *>(&s8);
    REQUIRE_MESSAGE(size != 2, "this test has no halves");
    std::memcpy(data.data() + i, from, size);
  }
  return data;
}

// A problem or chain with everything that a run may want.
struct Job {
  std::vector<polyconv_problem> problems;
  std::vector<char> input, output;
  std::vector<std::vector<char>> weights, bias, scale, residual, slope, weights_zero_point, residual_gradient, saved;
  polyconv_buffers buffers;

  explicit Job(const std::vector<std::string> &tokens, int32_t save = POLYCONV_SAVE_NONE) {
    std::mt19937 random(1);
    for (const std::string &token : tokens) problems.push_back(problem(token));
    prepare(&random, save);
  }
  // Of problems that no token describes.
  static Job of(std::vector<polyconv_problem> all, int32_t save = POLYCONV_SAVE_NONE) {
    Job job;
    std::mt19937 random(1);
    job.problems = std::move(all);
    job.prepare(&random, save);
    return job;
  }

  // Plans, packs what must be packed, and runs. The plan's info is kept in `kernel` and `steps`.
  polyconv_status run(const polyconv_options &o) {
    polyconv_status status = POLYCONV_SUCCESS;
    plan = try_plan(problems, o, &status);
    if (status != POLYCONV_SUCCESS) return status;
    prepare_run();
    return polyconv_run(plan.get(), &buffers, nullptr);
  }

  // Packed weights and workspace for `plan`.
  void prepare_run() {
    const polyconv_plan_info i = info(plan);
    kernel = i.kernel;
    steps = i.step_count;
    workspace = std::make_unique<Aligned>(static_cast<size_t>(i.workspace_bytes));
    buffers.workspace = workspace->data.get();
    buffers.workspace_size = static_cast<size_t>(i.workspace_bytes);
    packed.clear();
    for (size_t layer = 0; layer < problems.size(); ++layer) {
      const char *format = nullptr;
      REQUIRE(polyconv_plan_weights(plan.get(), static_cast<int32_t>(layer), &format, nullptr) == POLYCONV_SUCCESS);
      buffers.packed[layer] = nullptr;
      if (std::string(format) == "raw") continue;
      polyconv_weights *made = nullptr;
      REQUIRE_MESSAGE(polyconv_weights_create(plan.get(), static_cast<int32_t>(layer), weights[layer].data(), nullptr,
                                              nullptr, &made) == POLYCONV_SUCCESS,
                      error());
      packed.emplace_back(made);
      buffers.packed[layer] = made;
    }
  }

  void poison() {
    std::fill(output.begin(), output.end(), static_cast<char>(0xff));
    for (std::vector<char> &written : saved) std::fill(written.begin(), written.end(), static_cast<char>(0xff));
  }

  Plan plan;
  std::unique_ptr<Aligned> workspace;
  std::vector<Weights> packed;
  std::string kernel;
  int32_t steps = 0;

 private:
  Job() = default;

  void prepare(std::mt19937 *random, int32_t save) {
    const bool forward = problems[0].direction == POLYCONV_FORWARD;
    polyconv_buffers_init(&buffers);
    input = fill(problems.front(), POLYCONV_TENSOR_INPUT,
                 problems[0].direction == POLYCONV_BACKWARD_DATA ? nullptr : random);
    output = fill(problems.back(), POLYCONV_TENSOR_OUTPUT, forward ? nullptr : random);
    buffers.input = input.data();
    buffers.output = output.data();
    for (size_t i = 0; i < problems.size(); ++i) {
      const polyconv_problem &p = problems[i];
      weights.push_back(fill(p, POLYCONV_TENSOR_WEIGHTS, random));
      bias.push_back(fill(p, POLYCONV_TENSOR_BIAS, random));
      scale.push_back(fill(p, POLYCONV_TENSOR_SCALE, random));
      residual.push_back(fill(p, POLYCONV_TENSOR_RESIDUAL, random));
      slope.push_back(fill(p, POLYCONV_TENSOR_SLOPE, random));
      weights_zero_point.push_back(fill(p, POLYCONV_TENSOR_WEIGHTS_ZERO_POINT, random));
      residual_gradient.push_back(fill(p, POLYCONV_TENSOR_RESIDUAL_GRADIENT, nullptr));
      saved.push_back(save == POLYCONV_SAVE_NONE
                          ? std::vector<char>()
                          : fill(p,
                                 save == POLYCONV_SAVE_ARGMAX ? POLYCONV_TENSOR_ARGMAX : POLYCONV_TENSOR_PRE_ACTIVATION,
                                 nullptr));
    }
    for (size_t i = 0; i < problems.size(); ++i) {
      const auto pointer = [](std::vector<char> &data) { return data.empty() ? nullptr : data.data(); };
      buffers.weights[i] = pointer(weights[i]);
      buffers.bias[i] = pointer(bias[i]);
      buffers.scale[i] = pointer(scale[i]);
      buffers.residual[i] = pointer(residual[i]);
      buffers.slope[i] = pointer(slope[i]);
      buffers.weights_zero_point[i] = pointer(weights_zero_point[i]);
      buffers.residual_gradient[i] = pointer(residual_gradient[i]);
      buffers.saved[i] = pointer(saved[i]);
    }
  }
};

// Runs a job under `o` and on the reference and compares every byte that is written.
inline void check_against_reference(Job *one, const polyconv_options &o) {
  one->poison();
  REQUIRE_MESSAGE(one->run(o) == POLYCONV_SUCCESS, error());
  const std::string kernel = one->kernel;
  const int32_t steps = one->steps;
  const std::vector<char> output = one->output;
  const std::vector<std::vector<char>> saved = one->saved;
  one->poison();
  polyconv_options oracle = o;
  oracle.kernel = "reference/*";
  oracle.fallback = POLYCONV_FALLBACK_ALLOW;
  oracle.workspace_limit = -1;
  oracle.grouping = nullptr;
  REQUIRE_MESSAGE(one->run(oracle) == POLYCONV_SUCCESS, error());
  CAPTURE(kernel);
  CHECK(output == one->output);
  CHECK(saved == one->saved);
  one->kernel = kernel;
  one->steps = steps;
}

} // namespace job
