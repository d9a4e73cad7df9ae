// cudnn_test.cpp - what the cudnn backend promises beside right results: it is taken only where it is named, strict
// stays strict whatever it measures, and a plan keeps the workspace that its engine needs. Skipped where there is no
// cuDNN.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <utility>

#include "cuda.hpp"
#include "missing.hpp"

using cuda_test::Layer;
using polyconv::Device;

namespace {

const char *const kToken = "fwd:n2,c64,k32,i20x20,f3x3,p1";

bool no_cudnn() {
  return polyconv_test::missing("cudnn");
}

polyconv::Options options_for(const char *kernel) {
  polyconv::Options options;
  options.kernel = kernel;
  options.bind = 1;
  return options;
}

// The sentence of a plan that is refused; "" where it is not.
std::string refused(const Device &device, const std::string &token, const polyconv::Options &options) {
  const polyconv::Problem problem(token);
  polyconv_plan *plan = nullptr;
  const polyconv_status status = polyconv_plan_create(device.get(), &problem, 1, &options, &plan);
  polyconv_plan_destroy(plan);
  return status == POLYCONV_SUCCESS ? "" : polyconv_last_error();
}

bool contains(const std::string &text, const char *words) {
  INFO(text);
  return text.find(words) != std::string::npos;
}

// A file that is not there, named to the backend as the one that choices are kept in, and what the backend logs.
class ChoicesFile {
 public:
  explicit ChoicesFile(const std::string &name)
      : path_(std::filesystem::temp_directory_path() / (name + std::to_string(std::random_device()()))) {
    setenv("POLYCONV_CUDNN_CHOICES", path_.c_str(), 1);
    polyconv_set_log([](void *log, int32_t, const char *line) { *static_cast<std::string *>(log) += line; }, &log_,
                     POLYCONV_LOG_INFO);
  }
  ~ChoicesFile() {
    polyconv_set_log(nullptr, nullptr, POLYCONV_LOG_ERROR);
    unsetenv("POLYCONV_CUDNN_CHOICES");
    std::error_code not_there;
    std::filesystem::remove(path_, not_there);
  }
  ChoicesFile(const ChoicesFile &) = delete;
  ChoicesFile &operator=(const ChoicesFile &) = delete;

  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }
  void write(const std::string &text) const { std::ofstream(path_) << text; }
  std::string take_log() { return std::exchange(log_, std::string()); }

 private:
  const std::filesystem::path path_;
  std::string log_;
};

} // namespace

TEST_CASE("it is taken only where it is named, and cudnn/any only under the mode that admits transforms") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  polyconv::Options options = options_for("cudnn/any");
  CHECK(contains(refused(device, kToken, options), "only under math fast"));
  options.math = POLYCONV_MATH_FAST;
  CHECK(refused(device, kToken, options).empty());
  options = options_for("cudnn/direct");
  CHECK(contains(refused(device, "fwd:c8,k8,i9x9,f3x3,p1:pad=reflect", options), "pads with zeros only"));
  CHECK(contains(refused(device, "fwd:c8,k8,i9x9,f3x3:bias+relu", options), "no epilogue"));
  CHECK(contains(refused(device, "bwd_w:c8,k8,i9x9,f3x3:bias", options), "no gradient of a bias"));
  options.bind = 0;
  CHECK(contains(refused(device, kToken, options), "needs polyconv_bind"));
  options = options_for("*");
  const polyconv::Problem problem(kToken);
  const polyconv::Plan plan(problem, options, device);
  CHECK(std::string(plan.info().kernel).rfind("cudnn/", 0) != 0);
}

TEST_CASE("whatever engine measuring finds has the accuracy of its mode: no TF32") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  for (const char *token : {"fwd:n2,c64,k32,i16x16,f3x3,p1", "fwd:n2,c64,k32,i16x16,f3x3,p1:nhwc",
                            "fwd:i1024x1024,f7x7,p3", "fwd:n2,c24,k24,g24,i28x28,f3x3,p1",
                            "bwd_d:n2,c64,k32,i16x16,f3x3,s2,p1", "bwd_w:n2,c64,k32,i16x16,f3x3,p1:nhwc"}) {
    polyconv::check::Case problem(token);
    for (const char *kernel : {"cudnn/direct", "cudnn/any"}) {
      polyconv::Options options = options_for(kernel);
      options.math = std::string(kernel) == "cudnn/any" ? POLYCONV_MATH_FAST : POLYCONV_MATH_STRICT;
      options.tuning_budget_ms = 500;
      const polyconv::check::Result result = problem.run(polyconv::check::Mode::Random, device.get(), options);
      CHECK_MESSAGE(result.good(), token << " by " << result.kernel << ": " << result.sentence);
      CHECK(result.rel_l2_err < 1e-5); // products rounded to TF32 give about 3e-4
      MESSAGE(std::string(token) << " by " << result.kernel << ": error " << result.rel_l2_err);
    }
  }
}

// For each the heuristics' first engine is one of defects.hpp: sums rounded to f16, NaN in gradients that do not depend
// on it, padding taken for even, a transform, other bits in the second run, 0 for an infinity.
TEST_CASE("engines that are known to be wrong are not taken, though cuDNN proposes them first") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  for (const char *token :
       {"bwd_d:n2,c7,k24,i10x14,f3x3,p1:krsc:f16", "bwd_d:n5,c4,k9,i49x15,f3x7,s2,p2x1:krsc:f16",
        "bwd_d:n7,c2,k11,i4x7,f1x1,s4x2:nhwc:krsc:f16", "bwd_d:n1,c5,k64,i34x9,f3x3,s2:krsc:f16",
        "bwd_w:n1,c4,k88,i13x43,f3x3,s2x4,p3x1/3x4,d3x1:krsc", "bwd_w:n4,c128,k128,g4,i9x29,f1x1,p0/2x0:krsc:f16",
        "bwd_w:n20,c6,k8,i12x10,f3x3,p1x3/6x3:krsc",
        "bwd_d:n11,c3,k12,i4x16,f4x4,p1/1x5:krsc:xs=216.72.18.1:ys=1440.120.40.1",
        "bwd_w:n15,c1,k15,i3x13,f7x7,p3:nchw-nhwc:krsc:f16", "fwd:n4,c5,k88,i7,f3,p5:nhwc:f16",
        "fwd:n1,c40,k8,i1x5x3,f3x3x3,s2x3x2,p8x0x1/8x5x2,d2x1x1:nhwc:krsc:f16"}) {
    polyconv::check::Case problem(token);
    for (const char *kernel : {"cudnn/direct", "cudnn/any"}) {
      polyconv::Options options = options_for(kernel);
      if (std::string(kernel) == "cudnn/any") options.math = POLYCONV_MATH_FAST;
      const polyconv::check::Result result = problem.run_all(device.get(), options);
      CHECK_MESSAGE(result.good(), token << " by " << result.kernel << ": " << result.sentence);
    }
  }
}

// Engine 47, which writes 0 where a sum is infinite, is the fastest of the first: searches found it.
TEST_CASE("nor where a plan measures, though they be the fastest") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  for (const char *token : {"fwd:n8,c4,k320,i64x64,f3x3,p1:nhwc:f16", "fwd:n4,c5,k88,i7,f3,p5:nhwc:f16"}) {
    polyconv::check::Case problem(token);
    for (const char *kernel : {"cudnn/any", "cudnn/fast"}) {
      polyconv::Options options = options_for(kernel);
      options.math = POLYCONV_MATH_FAST;
      options.tuning_budget_ms = 200;
      const polyconv::check::Result result = problem.run_all(device.get(), options);
      CHECK_MESSAGE(result.good(), token << " by " << result.kernel << ": " << result.sentence);
    }
  }
}

TEST_CASE("f32 is rounded to TF32 where the plan allows it, and only there") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  polyconv::check::Case problem("fwd:n8,c64,k64,i32x32,f3x3,p1:nhwc");
  polyconv::Options options = options_for("cudnn/direct");
  options.tuning_budget_ms = 500;
  for (const bool transforms : {true, false}) {
    options.kernel = transforms ? "cudnn/fast" : "cudnn/direct";
    options.math = transforms ? POLYCONV_MATH_FAST : POLYCONV_MATH_TF32;
    const polyconv::check::Result result = problem.run(polyconv::check::Mode::Random, device.get(), options);
    CHECK_MESSAGE(result.good(), result.sentence);
    CHECK(std::string(result.math) == "tf32");
    CHECK(result.rel_l2_err > 1e-5); // the fastest engine is one of the tensor cores'
  }
  const polyconv::Problem halves("fwd:n8,c64,k64,i32x32,f3x3,p1:nhwc:f16");
  CHECK(std::string(polyconv::Plan(halves, options, device).info().math) == "strict");
}

TEST_CASE("a plan asks for the workspace that its engine needs, within the limit") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  const polyconv::Problem problem(kToken);
  polyconv::Options options = options_for("cudnn/direct");
  CHECK(polyconv::Plan(problem, options, device).info().workspace_bytes < 64 << 20);
  for (const int64_t budget : {0, 200}) {
    options.tuning_budget_ms = budget;
    options.workspace_limit = 0;
    CHECK(polyconv::Plan(problem, options, device).info().workspace_bytes == 0);
  }
}

TEST_CASE(
    "what a search finds is kept in the file that is named for it, and searched again only where it cannot be had") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  const polyconv::Problem problem(kToken);
  polyconv::Options options = options_for("cudnn/direct");
  options.tuning_budget_ms = 50;
  ChoicesFile file("polyconv_choices_");
  const auto log_of_a_plan = [&] {
    file.take_log();
    const polyconv::Plan plan(problem, options, device);
    return file.take_log();
  };
  CHECK(!contains(log_of_a_plan(), "kept from another search"));
  REQUIRE(file.lines().size() == 1);
  const std::string line = file.lines()[0] + "\n", key = line.substr(0, line.find('\t') + 1);
  CHECK(contains(log_of_a_plan(), "kept from another search"));
  CHECK(file.lines().size() == 1);
  file.write(line + key + "nhwc/eng28 of somebody else\n"); // not one of ours: the line before counts
  CHECK(contains(log_of_a_plan(), "kept from another search"));
  const char *const wrong[] = {"nhwc/eng999 9.00 us of 9, cut 0, budget 50", // no such engine
                               "nhwc/eng28{9999=1} 9.00 us of 9, cut 0, budget 50",
                               "sideways/eng28 9.00 us of 9, cut 0, budget 50",
                               "nhwc/eng28{ 9.00 us of 9, cut 0, budget 50"};
  for (const char *choice : wrong) {
    file.write(key + choice + "\n");
    CHECK(!contains(log_of_a_plan(), "kept from another search"));
    CHECK(file.lines().size() == 2);
  }
  std::string cut_short = line; // had it been, more time might find more, less would not
  cut_short.replace(cut_short.find(", cut ") + 6, 1, "1");
  file.write(cut_short);
  options.tuning_budget_ms = 40;
  CHECK(contains(log_of_a_plan(), "kept from another search"));
  options.tuning_budget_ms = 60;
  CHECK(!contains(log_of_a_plan(), "kept from another search"));
  ChoicesFile nowhere("no such folder/");
  const polyconv::Plan plan(problem, options, device); // good all the same
  CHECK(contains(nowhere.take_log(), "nothing is kept"));
}

TEST_CASE("an engine that the file names is not taken where the plan's rules forbid it") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  const polyconv::Problem problem("fwd:n8,c64,k64,i32x32,f3x3,p1:nhwc");
  polyconv::Options options = options_for("cudnn/direct");
  options.tuning_budget_ms = 500;
  ChoicesFile file("polyconv_rules_");
  const polyconv::Plan strict(problem, options, device);
  options.math = POLYCONV_MATH_TF32;
  const polyconv::Plan rounded(problem, options, device); // the fastest engine is one of the tensor cores'
  const std::vector<std::string> lines = file.lines();
  REQUIRE(lines.size() == 2);
  file.write(lines[0].substr(0, lines[0].find('\t')) + lines[1].substr(lines[1].find('\t')) + "\n");
  file.take_log();
  options.math = POLYCONV_MATH_STRICT;
  const polyconv::Plan again(problem, options, device);
  CHECK(!contains(file.take_log(), "kept from another search"));
}

TEST_CASE("one plan runs on two threads at once, each with what it bound") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  const Layer layer(device, kToken, "cudnn/direct", 1);
  layer.run();
  const std::vector<float> expected = layer.output.values();
  const auto repeat = [&](const cuda_test::Floats &output) {
    polyconv::Buffers buffers = layer.buffers;
    const polyconv::Memory workspace(device, layer.workspace.bytes());
    buffers.output = output.get();
    buffers.workspace = workspace.get();
    const polyconv::Stream stream(device);
    const polyconv::Bound bound = layer.plan.bind(buffers);
    for (int i = 0; i < 100; ++i) bound.run(stream.get());
    polyconv::require(polyconv_stream_synchronize(device.get(), stream.get()));
  };
  const std::vector<float> nothing(expected.size());
  const cuda_test::Floats first(device, nothing), second(device, nothing);
  std::thread other([&] { repeat(second); });
  repeat(first);
  other.join();
  CHECK(first.values() == expected);
  CHECK(second.values() == expected);
}

TEST_CASE("pointers that engines cannot load from are refused when they are bound") {
  if (no_cudnn()) return;
  const Device device("cuda:0");
  Layer layer(device, kToken, "cudnn/direct", 1);
  const polyconv::Memory input(device, static_cast<size_t>(layer.problem.bytes(POLYCONV_TENSOR_INPUT)) + sizeof(float));
  layer.buffers.input = static_cast<char *>(input.get()) + sizeof(float);
  polyconv_bound *bound = nullptr;
  CHECK(polyconv_bind(layer.plan.get(), &layer.buffers, &bound) == POLYCONV_UNSUPPORTED);
  CHECK(contains(polyconv_last_error(), "multiples of 16"));
}
