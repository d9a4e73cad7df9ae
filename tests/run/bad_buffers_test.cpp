// bad_buffers_test.cpp - one row for each way to hand over wrong buffers, weights and weights files: a status, a
// sentence that names the buffer, and nothing written.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "bad_world.hpp"
#include "skip.hpp"

using polyconv_test::check_rows;
using polyconv_test::kInvalid;
using polyconv_test::kNoFile;
using polyconv_test::Row;
using polyconv_test::Words;
using polyconv_test::World;

TEST_CASE("weights") {
  check_rows({
      {"format of layer 1",
       [](World &w) { return polyconv_plan_weights(w.plan, 1, nullptr, nullptr); },
       kInvalid,
       {"layer is 1", "0"}},
      {"format of layer -1",
       [](World &w) { return polyconv_plan_weights(w.plan, -1, nullptr, nullptr); },
       kInvalid,
       {"layer is -1"}},
      {"format without a plan",
       [](World &) { return polyconv_plan_weights(nullptr, 0, nullptr, nullptr); },
       kInvalid,
       {"plan is NULL"}},
      {"create without a plan",
       [](World &w) { return polyconv_weights_create(nullptr, 0, w.kernel, nullptr, nullptr, &w.new_weights); },
       kInvalid,
       {"plan is NULL"}},
      {"create from NULL",
       [](World &w) { return polyconv_weights_create(w.plan, 0, nullptr, nullptr, nullptr, &w.new_weights); },
       kInvalid,
       {"raw is NULL"}},
      {"create from crooked weights",
       [](World &w) {
         const void *crooked = reinterpret_cast<const char *>(w.kernel) + 2;
         return polyconv_weights_create(w.plan, 0, crooked, nullptr, nullptr, &w.new_weights);
       },
       kInvalid,
       {"raw is 0x", "multiple of 4", "f32"}},
      {"create to NULL",
       [](World &w) { return polyconv_weights_create(w.plan, 0, w.kernel, nullptr, nullptr, nullptr); },
       kInvalid,
       {"weights is NULL"}},
      {"create for layer 3",
       [](World &w) { return polyconv_weights_create(w.plan, 3, w.kernel, nullptr, nullptr, &w.new_weights); },
       kInvalid,
       {"layer is 3"}},
      {"create in crooked memory",
       [](World &w) { return polyconv_weights_create(w.plan, 0, w.kernel, w.workspace + 4, nullptr, &w.new_weights); },
       kInvalid,
       {"memory is", "256"}},
      {"update NULL",
       [](World &w) { return polyconv_weights_update(nullptr, w.kernel, nullptr); },
       kInvalid,
       {"weights is NULL"}},
      {"update from NULL",
       [](World &w) { return polyconv_weights_update(w.weights, nullptr, nullptr); },
       kInvalid,
       {"raw is NULL"}},
      {"update what was not planned so",
       [](World &w) { return polyconv_weights_update(w.weights, w.kernel, nullptr); },
       POLYCONV_UNSUPPORTED,
       {"dynamic_weights"}},
      {"save NULL", [](World &) { return polyconv_weights_save(nullptr, "x"); }, kInvalid, {"weights is NULL"}},
      {"save nowhere", [](World &w) { return polyconv_weights_save(w.weights, nullptr); }, kInvalid, {"path is NULL"}},
      {"save in no folder",
       [](World &w) { return polyconv_weights_save(w.weights, kNoFile); },
       POLYCONV_IO_ERROR,
       {kNoFile}},
      {"load nothing",
       [](World &w) { return polyconv_weights_load(w.plan, 0, kNoFile, nullptr, nullptr, &w.new_weights); },
       POLYCONV_IO_ERROR,
       {kNoFile}},
      {"load NULL",
       [](World &w) { return polyconv_weights_load(w.plan, 0, nullptr, nullptr, nullptr, &w.new_weights); },
       kInvalid,
       {"path is NULL"}},
      {"load to NULL",
       [](World &w) { return polyconv_weights_load(w.plan, 0, "x", nullptr, nullptr, nullptr); },
       kInvalid,
       {"weights is NULL"}},
      {"load without a plan",
       [](World &w) { return polyconv_weights_load(nullptr, 0, "x", nullptr, nullptr, &w.new_weights); },
       kInvalid,
       {"plan is NULL"}},
  });
}

namespace {

std::string bytes_of_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

} // namespace

TEST_CASE("a weights file that is not whole is refused, wherever it is broken") {
  const std::string path = "bad_buffers_test.weights";
  World world;
  REQUIRE(polyconv_weights_save(world.weights, path.c_str()) == POLYCONV_SUCCESS);
  const std::string good = bytes_of_file(path);
  REQUIRE(good.size() > 36);
  const auto load = [&](const std::string &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return polyconv_weights_load(world.plan, 0, path.c_str(), nullptr, nullptr, &world.new_weights);
  };
  for (size_t length = 0; length < good.size(); ++length) { // cut anywhere
    CAPTURE(length);
    REQUIRE(load(good.substr(0, length)) == POLYCONV_IO_ERROR);
    REQUIRE(std::string(polyconv_last_error()).find(path) != std::string::npos);
  }
  for (size_t i = 0; i < good.size(); ++i) { // one bit wrong anywhere
    CAPTURE(i);
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    const polyconv_status status = load(bad);
    REQUIRE((status == POLYCONV_IO_ERROR || status == POLYCONV_INVALID_ARGUMENT));
  }
  CHECK(load(good + "more") == POLYCONV_IO_ERROR);
  CHECK(load(std::string(10000, 'x')) == POLYCONV_IO_ERROR);
  CHECK(world.untouched());
  // Whole, but of another layer.
  std::ofstream(path, std::ios::binary | std::ios::trunc) << good;
  polyconv_problem other;
  REQUIRE(polyconv_problem_parse("fwd:i8x8,f5,p2", &other) == POLYCONV_SUCCESS);
  polyconv_plan *plan = nullptr;
  REQUIRE(polyconv_plan_create(nullptr, &other, 1, &world.options, &plan) == POLYCONV_SUCCESS);
  CHECK(polyconv_weights_load(plan, 0, path.c_str(), nullptr, nullptr, &world.new_weights) == kInvalid);
  const std::string sentence = polyconv_last_error();
  CHECK(sentence.find("f3x3") != std::string::npos);
  CHECK(sentence.find("f5x5") != std::string::npos);
  CHECK(world.untouched());
  polyconv_plan_destroy(plan);
  std::remove(path.c_str());
}

TEST_CASE("buffers") {
  const auto missing = [](const char *name, void (*spoil)(World &)) {
    return Row{name,
               [spoil](World &w) {
                 spoil(w);
                 CHECK(w.check() == kInvalid);
                 CHECK(w.bind() == kInvalid);
                 CHECK(w.convolve() == kInvalid);
                 return w.run();
               },
               kInvalid,
               {name, "NULL"}};
  };
  const auto checked = [](const char *name, void (*spoil)(World &), Words words) {
    return Row{name,
               [spoil](World &w) {
                 spoil(w);
                 CHECK(w.bind() == kInvalid);
                 CHECK(w.convolve() == kInvalid);
                 return w.check();
               },
               kInvalid, std::move(words)};
  };
  check_rows({
      {"run NULL", [](World &w) { return polyconv_run(nullptr, &w.buffers, nullptr); }, kInvalid, {"plan is NULL"}},
      {"run with NULL", [](World &w) { return polyconv_run(w.plan, nullptr, nullptr); }, kInvalid, {"buffers is NULL"}},
      {"check NULL", [](World &w) { return polyconv_buffers_check(nullptr, &w.buffers); }, kInvalid, {"plan is NULL"}},
      {"check with NULL",
       [](World &w) { return polyconv_buffers_check(w.plan, nullptr); },
       kInvalid,
       {"buffers is NULL"}},
      {"bind NULL",
       [](World &w) { return polyconv_bind(nullptr, &w.buffers, &w.new_bound); },
       kInvalid,
       {"plan is NULL"}},
      {"bind to NULL",
       [](World &w) { return polyconv_bind(w.plan, &w.buffers, nullptr); },
       kInvalid,
       {"bound is NULL"}},
      {"run NULL bound", [](World &) { return polyconv_run_bound(nullptr, nullptr); }, kInvalid, {"bound is NULL"}},
      {"convolve with NULL",
       [](World &w) { return polyconv_convolve(nullptr, &w.problem, 1, nullptr, nullptr); },
       kInvalid,
       {"buffers is NULL"}},
      missing("buffers.input", [](World &w) { w.buffers.input = nullptr; }),
      missing("buffers.output", [](World &w) { w.buffers.output = nullptr; }),
      missing("buffers.weights[0]", [](World &w) { w.buffers.weights[0] = nullptr; }),
      missing("buffers.bias[0]", [](World &w) { w.buffers.bias[0] = nullptr; }),
      missing("buffers.residual[0]", [](World &w) { w.buffers.residual[0] = nullptr; }),
      {"struct_size",
       [](World &w) {
         w.buffers.struct_size = 1;
         return w.run();
       },
       kInvalid,
       {"buffers", "struct_size is 1"}},
      checked("output on input", [](World &w) { w.buffers.output = w.input; },
              {"buffers.output", "buffers.input", "overlap"}),
      checked("output on weights", [](World &w) { w.buffers.weights[0] = w.output + 50; },
              {"buffers.output", "buffers.weights[0]", "overlap"}),
      checked("output on bias", [](World &w) { w.buffers.bias[0] = w.output + 63; },
              {"buffers.output", "buffers.bias[0]", "overlap"}),
      checked("output on part of the residual", [](World &w) { w.buffers.residual[0] = w.output + 1; },
              {"buffers.output", "buffers.residual[0]", "overlap"}),
      checked("crooked input", [](World &w) { w.buffers.input = reinterpret_cast<char *>(w.input) + 2; },
              {"buffers.input is", "multiple of 4"}),
  });
  World world; // a residual that is the output itself is fine
  world.buffers.residual[0] = world.output;
  CHECK_MESSAGE(world.check() == POLYCONV_SUCCESS, polyconv_last_error());
}

namespace {

// A plan that needs packed weights, or one that needs a workspace, whichever kernel gives one; NULL where none does.
polyconv_plan *demanding(bool packed) {
  for (const char *token : {"fwd:c64,k64,i28x28,f3,p1", "fwd:c64,k64,i28x28,f3,p1:nhwc",
                            "bwd_w:n8,c64,k64,i28x28,f3,p1", "fwd:c8,k8,i9x9,f3:avgpool2"}) {
    polyconv_problem problem;
    REQUIRE(polyconv_problem_parse(token, &problem) == POLYCONV_SUCCESS);
    polyconv_plan *plan = nullptr;
    REQUIRE(polyconv_plan_create(nullptr, &problem, 1, nullptr, &plan) == POLYCONV_SUCCESS);
    polyconv_plan_info info = {};
    info.struct_size = sizeof info;
    const char *format = nullptr;
    REQUIRE(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_plan_weights(plan, 0, &format, nullptr) == POLYCONV_SUCCESS);
    if (packed ? std::strcmp(format, "raw") != 0 : info.workspace_bytes > 0) return plan;
    polyconv_plan_destroy(plan);
  }
  polyconv_test::skip(packed ? "no kernel here packs weights" : "no kernel here needs a workspace");
  return nullptr;
}

// Buffers for any of these plans.
struct Ample {
  std::vector<float> memory = std::vector<float>(1 << 20);
  polyconv_buffers buffers;
  Ample() {
    polyconv_buffers_init(&buffers);
    buffers.input = memory.data();
    buffers.output = memory.data() + 500000;
    buffers.weights[0] = memory.data() + 900000;
  }
};

bool says(const char *words) {
  return std::string(polyconv_last_error()).find(words) != std::string::npos;
}

} // namespace

TEST_CASE("packed formats are checked by every run") {
  polyconv_plan *plan = demanding(true);
  if (plan == nullptr) return;
  World world;
  Ample ample;
  CHECK(polyconv_run(plan, &ample.buffers, nullptr) == kInvalid); // raw weights will not do
  CHECK(says("buffers.packed[0] is NULL"));
  ample.buffers.packed[0] = world.weights; // another format
  CHECK(polyconv_run(plan, &ample.buffers, nullptr) == kInvalid);
  CHECK(says("'raw'"));
  CHECK(says("buffers.packed[0]"));
  polyconv_plan_destroy(plan);
}

TEST_CASE("workspaces are checked by every run") {
  polyconv_plan *plan = demanding(false);
  if (plan == nullptr) return;
  World world;
  Ample ample;
  polyconv_weights *weights = nullptr;
  const char *format = nullptr;
  REQUIRE(polyconv_plan_weights(plan, 0, &format, nullptr) == POLYCONV_SUCCESS);
  if (std::strcmp(format, "raw") != 0)
    REQUIRE(polyconv_weights_create(plan, 0, ample.memory.data(), nullptr, nullptr, &weights) == POLYCONV_SUCCESS);
  ample.buffers.packed[0] = weights;
  CHECK(polyconv_run(plan, &ample.buffers, nullptr) != POLYCONV_SUCCESS);
  CHECK(says("buffers.workspace"));
  ample.buffers.workspace = world.workspace;
  ample.buffers.workspace_size = 1;
  CHECK(polyconv_run(plan, &ample.buffers, nullptr) == POLYCONV_WORKSPACE_TOO_SMALL);
  CHECK(says("buffers.workspace_size is 1, expected at least"));
  ample.buffers.workspace = world.workspace + 8;
  ample.buffers.workspace_size = size_t{1} << 40;
  CHECK(polyconv_run(plan, &ample.buffers, nullptr) == kInvalid);
  CHECK(says("multiple of 256"));
  polyconv_weights_destroy(weights);
  polyconv_plan_destroy(plan);
}
