// onednn_test.cpp - what the onednn backend promises beside right results: it is taken only where it is named, what
// measuring finds is as exact as what is taken unmeasured, a plan keeps to its threads and its workspace, and packed
// weights are never read in another order. Skipped where there is no oneDNN 3.
// SPDX-License-Identifier: Apache-2.0
// ctest-label: vendor
#include <doctest/doctest.h>
#include <polyconv/polyconv.hpp>
#include <polyconv/sdk/check.hpp>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "missing.hpp"

namespace {

const char *const kToken = "fwd:n2,c32,k32,i20x20,f3x3,p1";

polyconv::Options options_for(const char *kernel) {
  polyconv::Options options;
  options.kernel = kernel;
  options.bind = 1;
  options.threads = 2;
  return options;
}

// The sentence of a plan that is refused; "" where it is not.
std::string refused(const std::string &token, const polyconv::Options &options) {
  const polyconv::Problem problem(token);
  polyconv_plan *plan = nullptr;
  const polyconv_status status = polyconv_plan_create(nullptr, &problem, 1, &options, &plan);
  polyconv_plan_destroy(plan);
  return status == POLYCONV_SUCCESS ? "" : polyconv_last_error();
}

bool contains(const std::string &text, const char *words) {
  INFO(text);
  return text.find(words) != std::string::npos;
}

// Whether oneDNN has nothing for that layer because this processor has no instructions for its 16 or 8 bits: it says
// so, and of f32 it never may.
bool needs_another_processor(const std::string &token, const polyconv::Options &options) {
  if (!contains(token, ":bf16") && !contains(token, "s8")) return false;
  const std::string why = refused(token, options);
  return contains(why, "without VNNI") || contains(why, "has no implementation");
}

// A layer on small integers, so that every right answer is the same to the last bit.
struct Layer {
  polyconv::Problem problem;
  polyconv::Plan plan;
  std::vector<float> input, weights, output;
  polyconv::Memory workspace;
  polyconv::Weights packed;

  explicit Layer(const polyconv::Options &options, const char *token = kToken)
      : problem(token),
        plan(problem, options),
        input(floats(POLYCONV_TENSOR_INPUT)),
        weights(floats(POLYCONV_TENSOR_WEIGHTS)),
        output(floats(POLYCONV_TENSOR_OUTPUT)),
        workspace(polyconv::Device(), static_cast<size_t>(plan.info().workspace_bytes)),
        packed(plan, 0, weights.data()) {}

  std::vector<float> floats(int32_t role) const {
    std::vector<float> values(static_cast<size_t>(problem.bytes(role)) / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
    return values;
  }

  polyconv_buffers buffers(const float *from, float *to, void *scratch) const {
    polyconv_buffers b;
    polyconv_buffers_init(&b);
    b.input = const_cast<float *>(from);
    b.output = to;
    b.packed[0] = packed.get();
    b.workspace = scratch;
    b.workspace_size = workspace.bytes();
    return b;
  }
  polyconv_buffers buffers() { return buffers(input.data(), output.data(), workspace.get()); }
};

int threads_of_the_process() {
  int count = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task")) count += entry.exists() ? 1 : 0;
  return count;
}

} // namespace

TEST_CASE("it is taken only where it is named, and says what it does not take") {
  if (polyconv_test::missing("onednn")) return;
  const polyconv::Problem problem(kToken);
  const polyconv::Plan plan(problem, options_for("*"));
  CHECK(std::string(plan.info().kernel).rfind("onednn/", 0) != 0);
  polyconv::Options options = options_for("onednn/*");
  CHECK(refused(kToken, options).empty());
  CHECK(contains(refused("fwd:c8,k8,i9x9,f3x3,p1:pad=reflect", options), "pads with zeros only"));
  CHECK(contains(refused("fwd:c8,k8,i9x9,f3x3:scale", options), "no scale, no residual"));
  CHECK(contains(refused("fwd:c8,k8,i9x9,f3x3:relu", options), "NaN"));
  CHECK(contains(refused("fwd:c8,k8,i9x9,f3x3:s8:bias", options), "not exact"));
  CHECK(contains(refused("fwd:c8,k8,i9x9,f3x3:flip", options), "no flip"));
  CHECK(contains(refused("fwd:c8,k8,i9x9,f3x3:f64", options), "takes f32"));
  options.bind = 0;
  CHECK(contains(refused(kToken, options), "needs polyconv_bind"));
  options.bind = 1;
  options.parallel_for = [](void *context, int64_t tasks, void (*task)(void *, int64_t), void *of) {
    (void)context;
    for (int64_t i = 0; i < tasks; ++i) task(of, i);
  };
  CHECK(contains(refused(kToken, options), "not on the caller's"));
}

TEST_CASE("whatever measuring finds is exact where the problem is, in the caller's layout and in oneDNN's own") {
  if (polyconv_test::missing("onednn")) return;
  for (const char *token :
       {kToken, "fwd:n2,c32,k32,i20x20,f3x3,p1:nhwc", "fwd:n4,k4,i86x86,f7x7", "fwd:n2,c24,k24,g24,i28x28,f3x3,p1",
        "fwd:n2,c24,k40,i14x14,f1x1:nhwc:bf16:bias", "fwd:n1,c64,k16,i14x14,f3x3,p1:s8",
        "bwd_d:n2,c32,k16,i14x14,f3x3,s2,p1", "bwd_w:n2,c16,k32,i14x14,f3x3,p1:bias"}) {
    polyconv::check::Case problem(token);
    for (const char *kernel : {"onednn/conv@auto", "onednn/conv@plain", "onednn/conv@any"}) {
      polyconv::Options options = options_for(kernel);
      options.tuning_budget_ms = 200;
      if (needs_another_processor(token, options)) continue;
      const polyconv::check::Result result = problem.run_all(nullptr, options);
      CHECK_MESSAGE(result.acceptable(), token << " by " << result.kernel << ": " << result.sentence);
    }
  }
}

TEST_CASE("a plan asks for the workspace that its implementation needs, within the limit") {
  if (polyconv_test::missing("onednn")) return;
  polyconv::Options options = options_for("onednn/conv@any");
  CHECK(polyconv::Plan(polyconv::Problem(kToken), options).info().workspace_bytes < 4 << 20);
  options.workspace_limit = 0;
  CHECK(contains(refused(kToken, options), "bytes of workspace"));
}

TEST_CASE("a plan runs on its own number of threads") {
  if (polyconv_test::missing("onednn")) return;
  polyconv::Options options = options_for("onednn/conv@any");
  const int before = threads_of_the_process();
  for (const int threads : {1, before + 2}) { // a thread that was there before may be one of them
    options.threads = threads;
    Layer layer(options);
    const polyconv_buffers buffers = layer.buffers();
    layer.plan.bind(buffers).run();
    CHECK(threads_of_the_process() >= threads);
    if (threads == 1) CHECK(threads_of_the_process() == before);
  }
}

TEST_CASE("one plan runs on two threads at once, each with what it bound, from memory of any alignment") {
  if (polyconv_test::missing("onednn")) return;
  Layer layer(options_for("onednn/conv@any"));
  const polyconv_buffers buffers = layer.buffers();
  layer.plan.bind(buffers).run();
  const std::vector<float> expected = layer.output;
  const auto repeat = [&](std::vector<float> *found) {
    const polyconv::Memory workspace(polyconv::Device(), layer.workspace.bytes());
    std::vector<float> input(layer.input.size() + 1), output(expected.size() + 1);
    std::copy(layer.input.begin(), layer.input.end(), input.begin() + 1);
    const polyconv_buffers own = layer.buffers(input.data() + 1, output.data() + 1, workspace.get());
    const polyconv::Bound bound = layer.plan.bind(own);
    for (int i = 0; i < 50; ++i) bound.run();
    found->assign(output.begin() + 1, output.end());
  };
  std::vector<float> first, second;
  std::thread other([&] { repeat(&second); });
  repeat(&first);
  other.join();
  CHECK(first == expected);
  CHECK(second == expected);
}

TEST_CASE("weights that another implementation packed are refused, or packed alike, and never misread") {
  if (polyconv_test::missing("onednn")) return;
  Layer blocked(options_for("onednn/conv@any")), plain(options_for("onednn/conv@plain"));
  polyconv_buffers buffers = plain.buffers();
  plain.plan.bind(buffers).run();
  const std::vector<float> expected = plain.output;
  buffers.packed[0] = blocked.packed.get();
  polyconv_bound *bound = nullptr;
  if (polyconv_bind(plain.plan.get(), &buffers, &bound) == POLYCONV_SUCCESS) { // 3.13 packs alike here, 3.2 does not
    std::fill(plain.output.begin(), plain.output.end(), 0.0f);
    CHECK(polyconv_run_bound(bound, nullptr) == POLYCONV_SUCCESS);
    CHECK(plain.output == expected);
    polyconv_bound_destroy(bound);
    return;
  }
  CHECK(contains(polyconv_last_error(), "packed with this plan"));
}

TEST_CASE("sums of u8 and s8 are exact beyond what f32 holds") {
  if (polyconv_test::missing("onednn")) return;
  for (const char *token : {"fwd:c1024,k16,i4x4,f3x3:u8-s8-s32", "fwd:c1024,k16,i4x4,f3x3:u8-s8-s32:nhwc:krsc"}) {
    const polyconv::Problem problem(token);
    polyconv::Options options = options_for("onednn/*");
    options.fallback = POLYCONV_FALLBACK_ALLOW;
    if (needs_another_processor(token, options)) continue;
    std::vector<uint8_t> input(static_cast<size_t>(problem.bytes(POLYCONV_TENSOR_INPUT)), 255);
    std::vector<int8_t> weights(static_cast<size_t>(problem.bytes(POLYCONV_TENSOR_WEIGHTS)), 127);
    weights[0] = 126; // of the first filter: an odd sum of more than 24 bits
    std::vector<int32_t> output(static_cast<size_t>(problem.bytes(POLYCONV_TENSOR_OUTPUT)) / sizeof(int32_t));
    polyconv::Buffers buffers;
    buffers.input = input.data();
    buffers.weights[0] = weights.data();
    buffers.output = output.data();
    polyconv::convolve(problem, buffers, options);
    constexpr int32_t kSum = 1024 * 9 * 255 * 127;
    CHECK(output[0] == kSum - 255);
    CHECK(std::count(output.begin(), output.end(), kSum) == 15 * 4);
  }
}
