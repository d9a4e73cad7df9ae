// hpp_test.cpp - polyconv.hpp: every class makes, moves and frees its handle, and every failure becomes an Error with
// the status and the sentence of the C call.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.hpp>
#include <polyconv/sdk/check.hpp> // beside it: both name things in namespace polyconv

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>

namespace {

#if !defined(_WIN32)
// A tuning database of this process alone; the library reads its settings once, so they are there before main.
[[maybe_unused]] const bool kTunes = [] {
  const char *folder = std::getenv("POLYCONV_BINARY_DIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/tests/hpp_test.tuning.txt";
  std::remove(path.c_str());
  setenv("POLYCONV_TUNING_DB", path.c_str(), 1);
  setenv("POLYCONV_TUNING", "on", 1);
  return true;
}();
#endif

template <class Body>
polyconv_status status_of(Body body) {
  try {
    body();
  } catch (const polyconv::Error &error) {
    CHECK(std::string(error.what()) == polyconv_last_error());
    return error.status();
  }
  return POLYCONV_SUCCESS;
}

// A 2 x 2 box over 0..15.
struct Box {
  polyconv::Problem problem{"fwd:i4x4,f2x2"};
  std::vector<float> input = std::vector<float>(16);
  std::vector<float> weights = std::vector<float>(4, 1.0f);
  std::vector<float> output = std::vector<float>(9, -1.0f);
  polyconv::Buffers buffers;

  Box() {
    std::iota(input.begin(), input.end(), 0.0f);
    buffers.input = input.data();
    buffers.output = output.data();
    buffers.weights[0] = weights.data();
  }
  void check_output() {
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 3; ++x) CHECK(output[static_cast<size_t>(y * 3 + x)] == 4 * (4 * y + x) + 10);
  }
};

polyconv::Options on_reference() {
  polyconv::Options options;
  options.kernel = "reference/*";
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  return options;
}

} // namespace

static_assert(!std::is_copy_constructible<polyconv::Plan>::value, "a plan has one owner");
static_assert(std::is_nothrow_move_constructible<polyconv::Plan>::value, "a plan moves");
static_assert(std::is_nothrow_move_constructible<polyconv::Cache>::value, "a cache moves");
static_assert(std::is_nothrow_move_constructible<polyconv::Weights>::value, "weights move");
static_assert(std::is_nothrow_move_constructible<polyconv::Bound>::value, "a bound set moves");
static_assert(std::is_nothrow_move_constructible<polyconv::Explanation>::value, "an explanation moves");
static_assert(std::is_nothrow_move_constructible<polyconv::Memory>::value, "memory moves");
static_assert(std::is_nothrow_move_constructible<polyconv::Workspace>::value, "a workspace moves");

TEST_CASE("problems") {
  polyconv::Problem problem;
  CHECK(problem.spatial_dims == 2);
  problem.spatial_dims = 4;
  CHECK(status_of([&] { problem.validate(); }) == POLYCONV_INVALID_ARGUMENT);
  problem.spatial_dims = 2;
  problem.input_size[0] = problem.input_size[1] = 8;
  CHECK(problem.token() == "fwd:n1,c1,k1,i8x8,f1x1");
  CHECK(problem.bytes(POLYCONV_TENSOR_INPUT) == 256);
  CHECK(problem.tensor(POLYCONV_TENSOR_OUTPUT).size[4] == 8);
  CHECK(problem.flops() == 128);
  CHECK(polyconv::Problem("fwd:i8,f3").spatial_dims == 1);
  CHECK(status_of([] { polyconv::Problem("fwd:i8,f9"); }) == POLYCONV_INVALID_ARGUMENT);
  CHECK(status_of([&] { problem.tensor(POLYCONV_TENSOR_BIAS); }) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("plan, weights and run") {
  Box box;
  polyconv::Plan first(box.problem, on_reference());
  polyconv::Plan plan = std::move(first);
  CHECK(first.get() == nullptr);
  CHECK(std::string(plan.info().kernel).find("reference/") == 0);
  CHECK(plan.weights_format() == "raw");
  CHECK(plan.weights_bytes() == 16);
  polyconv::Memory workspace(polyconv::Device(), static_cast<size_t>(plan.info().workspace_bytes));
  box.buffers.workspace = workspace.get();
  box.buffers.workspace_size = workspace.bytes();
  plan.check_buffers(box.buffers);
  plan.run(box.buffers);
  box.check_output();
  box.output.assign(9, -1.0f);
  polyconv::Bound bound = plan.bind(box.buffers);
  bound.run();
  box.check_output();
  CHECK(status_of([&] { plan.weights_format(1); }) == POLYCONV_INVALID_ARGUMENT);
  CHECK(status_of([&] { plan.run(polyconv::Buffers()); }) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("a workspace is as large as its plans need") {
  const auto plan_of = [](const char *token) { return polyconv::Plan(polyconv::Problem(token), on_reference()); };
  // A layer of a chain leaves its result in the workspace.
  const std::vector<polyconv::Problem> chain = {polyconv::Problem("fwd:i4x4,f2x2"), polyconv::Problem("fwd:i3x3,f1x1")};
  const polyconv::Plan none = plan_of("fwd:i4x4,f2x2"), some(chain, on_reference());
  REQUIRE(none.info().workspace_bytes == 0);
  REQUIRE(some.info().workspace_bytes > 0);
  polyconv::Workspace workspace(none);
  CHECK(workspace.get() == nullptr);
  CHECK(workspace.bytes() == 0);

  Box box;
  const float one = 1.0f;
  box.buffers.weights[1] = const_cast<float *>(&one);
  CHECK(status_of([&] { some.run(box.buffers, workspace); }) == POLYCONV_WORKSPACE_TOO_SMALL);
  workspace.reserve(some);
  CHECK(static_cast<int64_t>(workspace.bytes()) == some.info().workspace_bytes);
  some.check_buffers(box.buffers, workspace);
  some.run(box.buffers, workspace);
  box.check_output();
  box.output.assign(9, -1.0f);
  some.bind(box.buffers, workspace).run();
  box.check_output();
  CHECK(box.buffers.workspace == nullptr); // the caller's struct is not touched

  void *const before = workspace.get();
  workspace.reserve(none); // nothing to grow for
  CHECK(workspace.get() == before);
  box.output.assign(9, -1.0f);
  none.run(box.buffers, workspace);
  box.check_output();
}

TEST_CASE("weights are packed, saved and loaded") {
  Box box;
  const polyconv::Plan plan(box.problem); // whatever the machine offers
  polyconv::Weights weights(plan, 0, box.weights.data());
  box.buffers.weights[0] = nullptr;
  box.buffers.packed[0] = weights.get();
  polyconv::Memory workspace(polyconv::Device(), static_cast<size_t>(plan.info().workspace_bytes));
  box.buffers.workspace = workspace.get();
  box.buffers.workspace_size = workspace.bytes();
  plan.run(box.buffers);
  box.check_output();
  const std::string path = "hpp_test.weights";
  weights.save(path);
  const polyconv::Weights loaded = polyconv::Weights::load(plan, 0, path);
  std::remove(path.c_str());
  box.output.assign(9, -1.0f);
  box.buffers.packed[0] = loaded.get();
  plan.run(box.buffers);
  box.check_output();
  CHECK(status_of([&] { polyconv::Weights::load(plan, 0, "no/such/file"); }) == POLYCONV_IO_ERROR);
}

TEST_CASE("a cache lends plans that run as any other and go back to it") {
  Box box;
  const polyconv::Cache cache(-1, on_reference());
  const polyconv_plan *lent = nullptr;
  {
    polyconv::Plan plan = cache.plan(box.problem);
    lent = plan.get();
    plan.run(box.buffers, polyconv::Workspace(plan));
    box.check_output();
    CHECK(cache.stats().in_use == 1);
    plan = cache.plan(std::vector<polyconv::Problem>{box.problem}); // the same, lent twice for a moment
    CHECK(plan.get() == lent);
    const polyconv::Plan moved = std::move(plan);
    CHECK(cache.stats().in_use == 1);
    CHECK(moved.device().get() == polyconv::Device().get());
  }
  CHECK(cache.stats().in_use == 0);
  CHECK(cache.stats().plans == 1);
  CHECK(cache.stats().hits == 1);
  polyconv::Plan mixed(box.problem, on_reference()); // one of its own, which is destroyed when another takes its place
  mixed = cache.plan(box.problem);
  CHECK(mixed.get() == lent);
  mixed = polyconv::Plan(box.problem, on_reference());
  CHECK(cache.stats().in_use == 0);
  cache.clear();
  CHECK(cache.stats().plans == 0);
  CHECK(status_of([&] { cache.plan(polyconv::Problem()); }) == POLYCONV_SUCCESS); // of one pixel
  polyconv::Problem wrong = box.problem;
  wrong.in_channels = -1;
  CHECK(status_of([&] { cache.plan(wrong); }) == POLYCONV_INVALID_ARGUMENT);
  CHECK(status_of([] { polyconv::Cache(-2); }) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("tuning tells a watcher, who may stop it or throw") {
  const std::vector<polyconv::Problem> problems = {polyconv::Problem("fwd:i4x4,f2x2"),
                                                   polyconv::Problem("fwd:i5x5,f2x2")};
  const char *mode = std::getenv("POLYCONV_TUNING");
  if (mode != nullptr && std::string(mode) == "off") {
    CHECK(status_of([&] { polyconv::tune(problems); }) == POLYCONV_UNSUPPORTED);
    return;
  }
  int calls = 0;
  polyconv::tune(problems, 0, on_reference(), [&](const polyconv_tune_progress &) { return ++calls < 1; });
  CHECK(calls == 1);
  std::string last;
  polyconv::tune(problems, 0, on_reference(), [&](const polyconv_tune_progress &now) {
    if (now.finished != 0) last = now.token;
    return true;
  });
  CHECK(last == problems[1].token());
  CHECK(std::string(polyconv::Plan(problems[0], on_reference()).info().measured_on).size() == 10);
  CHECK_THROWS_AS(polyconv::tune({polyconv::Problem("fwd:i6x6,f2x2")}, 0, on_reference(),
                                 [](const polyconv_tune_progress &) -> bool { throw std::string("enough"); }),
                  std::string);
  CHECK(status_of([] { polyconv::tune({}); }) == POLYCONV_INVALID_ARGUMENT);
  CHECK(status_of([] { polyconv::tune_merge("no/such/file"); }) == POLYCONV_IO_ERROR);
}

TEST_CASE("one call") {
  Box box;
  polyconv::convolve(box.problem, box.buffers);
  box.check_output();
  std::vector<polyconv::Problem> chain = {polyconv::Problem("fwd:i4x4,f2x2"), polyconv::Problem("fwd:i3x3,f1x1")};
  const float one = 1.0f;
  box.buffers.weights[1] = const_cast<float *>(&one);
  box.output.assign(9, -1.0f);
  polyconv::convolve(chain, box.buffers);
  box.check_output();
}

TEST_CASE("explanations") {
  const polyconv::Explanation explanation(polyconv::Problem("fwd:i4x4,f2x2"));
  CHECK(!explanation.text().empty());
  REQUIRE(explanation.size() >= 1);
  CHECK(explanation[0].accepted == 1);
  CHECK(status_of([&] { explanation[explanation.size()]; }) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("devices") {
  const polyconv::Device cpu;
  CHECK(std::strlen(cpu.properties().name) > 0);
  polyconv::Memory memory(cpu, 1000);
  CHECK(reinterpret_cast<uintptr_t>(memory.get()) % POLYCONV_ALIGNMENT == 0);
  CHECK(memory.bytes() == 1000);
  cpu.fill(memory.get(), 7, 1000);
  unsigned char last = 0;
  cpu.copy(&last, static_cast<unsigned char *>(memory.get()) + 999, 1);
  CHECK(last == 7);
  polyconv::Stream stream(cpu);
  polyconv::Event start(cpu);
  polyconv::Event stop(cpu);
  start.record(stream.get());
  stop.record(stream.get());
  stream.wait(stop);
  stream.synchronize();
  stop.synchronize();
  CHECK(start.milliseconds_until(stop) >= 0);
  CHECK(status_of([] { polyconv::Device("no such device"); }) != POLYCONV_SUCCESS);
}
