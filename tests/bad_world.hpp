// bad_world.hpp - what the tests of wrong calls share: a small world in which everything is right, for one row to
// spoil, and the check that a failed call says why and leaves everything as it was.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace polyconv_test {

constexpr polyconv_status kInvalid = POLYCONV_INVALID_ARGUMENT;
inline constexpr char kNoFile[] = "polyconv_test.no_such_folder/file";

using Words = std::vector<const char *>;

// A small world in which everything is right: a plan of the reference (raw weights), its buffers, weights, and marks
// in every result that a failed call must not touch.
struct World {
  polyconv_problem problem;
  polyconv_options options;
  polyconv_plan *plan = nullptr;
  polyconv_weights *weights = nullptr;
  polyconv_buffers buffers;
  alignas(256) float input[64] = {};
  alignas(256) float kernel[9] = {};
  alignas(256) float bias[1] = {};
  alignas(256) float residual[64] = {};
  alignas(256) float output[64];
  alignas(256) char workspace[256] = {};
  int mark = 0;
  // results
  polyconv_plan *new_plan = marked<polyconv_plan>();
  polyconv_weights *new_weights = marked<polyconv_weights>();
  polyconv_bound *new_bound = marked<polyconv_bound>();
  polyconv_explanation *new_explanation = marked<polyconv_explanation>();
  const polyconv_device *new_device = marked<const polyconv_device>();
  void *new_pointer = &mark;
  double number = -7;

  World() {
    polyconv_problem_init(&problem);
    REQUIRE(polyconv_problem_parse("fwd:i8x8,f3,p1:bias+residual", &problem) == POLYCONV_SUCCESS);
    polyconv_options_init(&options);
    options.kernel = "reference/*";
    options.fallback = POLYCONV_FALLBACK_ALLOW;
    REQUIRE_MESSAGE(polyconv_plan_create(nullptr, &problem, 1, &options, &plan) == POLYCONV_SUCCESS,
                    polyconv_last_error());
    REQUIRE(polyconv_weights_create(plan, 0, kernel, nullptr, nullptr, &weights) == POLYCONV_SUCCESS);
    polyconv_buffers_init(&buffers);
    buffers.input = input;
    buffers.output = output;
    buffers.weights[0] = kernel;
    buffers.bias[0] = bias;
    buffers.residual[0] = residual;
    buffers.workspace = workspace;
    buffers.workspace_size = sizeof workspace;
    for (float &value : output) value = 7;
  }
  ~World() {
    polyconv_weights_destroy(weights);
    polyconv_plan_destroy(plan);
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  template <class T>
  T *marked() {
    return reinterpret_cast<T *>(&mark);
  }
  bool untouched() {
    for (float value : output)
      if (value != 7) return false;
    return new_plan == marked<polyconv_plan>() && new_weights == marked<polyconv_weights>() &&
           new_bound == marked<polyconv_bound>() && new_explanation == marked<polyconv_explanation>() &&
           new_device == marked<const polyconv_device>() && new_pointer == &mark && number == -7;
  }

  polyconv_status create() { return polyconv_plan_create(nullptr, &problem, 1, &options, &new_plan); }
  polyconv_status run() { return polyconv_run(plan, &buffers, nullptr); }
  polyconv_status check() { return polyconv_buffers_check(plan, &buffers); }
  polyconv_status bind() { return polyconv_bind(plan, &buffers, &new_bound); }
  polyconv_status convolve() { return polyconv_convolve(nullptr, &problem, 1, &options, &buffers); }
};

struct Row {
  const char *call;
  std::function<polyconv_status(World &)> make;
  polyconv_status status;
  Words words;
};

inline void check_rows(const std::vector<Row> &rows) {
  for (const Row &row : rows) {
    World world;
    CAPTURE(row.call);
    const polyconv_status status = row.make(world);
    const std::string sentence = polyconv_last_error();
    CAPTURE(sentence);
    CHECK(status == row.status);
    CHECK(sentence.size() > 10);
    CHECK(sentence.size() < 700);
    for (const char *word : row.words) CHECK_MESSAGE(sentence.find(word) != std::string::npos, "missing: ", word);
    CHECK(world.untouched());
  }
}

} // namespace polyconv_test
