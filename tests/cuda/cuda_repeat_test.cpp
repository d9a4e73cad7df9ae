// cuda_repeat_test.cpp - every kernel of cuda-tensor and cuda-chain, in every config, gives the same bits in each of
// 1000 runs, and of 100 on every other problem that it takes. They hand tiles from warp to warp by barriers of their
// own, which racecheck does not follow; in a build with POLYCONV_STRESS warps sleep at random where they meet, and a
// missing wait shows as other bits. POLYCONV_REPEAT, a part of a kernel's full name, looks at some of them.
// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "every_kernel.hpp"
#include "other_words.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <set>

namespace {

using cuda_test::chain_of, cuda_test::kProblems;

// Of a config on the first problem that it takes; on each other one only those that are launched.
constexpr int kRuns = 1000;
// All other runs are replays of a graph: the host takes longer over a launch than the GPU over a small layer.
constexpr int kLaunched = 100, kRecorded = 100;
static_assert((kRuns - kLaunched) % kRecorded == 0);

// Device memory full of numbers below 2, as f16, as bf16 and as f32.
polyconv::Memory numbers(const polyconv::Device &device, int64_t bytes, uint32_t seed) {
  std::vector<uint16_t> values(static_cast<size_t>(bytes + 1) / 2);
  for (uint16_t &v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<uint16_t>(seed >> 16 & 0xbfffu);
  }
  polyconv::Memory memory(device, values.size() * 2);
  device.copy(memory.get(), values.data(), values.size() * 2);
  polyconv::require(polyconv_stream_synchronize(device.get(), nullptr));
  return memory;
}

// A chain's tensors, one set for all kernels.
class Tensors {
 public:
  Tensors(const polyconv::Device &device, const std::vector<polyconv::Problem> &chain) : device_(device) {
    const polyconv::Problem &first = chain.front(), &last = chain.back();
    buffers.input = make(first.bytes(POLYCONV_TENSOR_INPUT));
    result_bytes = static_cast<size_t>(last.bytes(POLYCONV_TENSOR_OUTPUT));
    result = buffers.output = make(last.bytes(POLYCONV_TENSOR_OUTPUT));
    for (size_t i = 0; i < chain.size(); ++i) {
      buffers.weights[i] = make(chain[i].bytes(POLYCONV_TENSOR_WEIGHTS));
      if (chain[i].epilogue.has_bias) buffers.bias[i] = make(chain[i].out_channels * 4); // no f64 here
      if (chain[i].epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER)
        buffers.residual[i] = make(chain[i].bytes(POLYCONV_TENSOR_OUTPUT));
    }
    if (first.direction == POLYCONV_BACKWARD_DATA) becomes_result(first, POLYCONV_TENSOR_INPUT, buffers.input);
    if (first.direction == POLYCONV_BACKWARD_WEIGHTS)
      becomes_result(first, POLYCONV_TENSOR_WEIGHTS, buffers.weights[0]);
  }

  polyconv::Buffers buffers;
  void *result = nullptr; // of what is written
  size_t result_bytes = 0;

 private:
  void *make(int64_t bytes) {
    memory_.push_back(numbers(device_, bytes, static_cast<uint32_t>(memory_.size())));
    return memory_.back().get();
  }
  void becomes_result(const polyconv::Problem &problem, int32_t tensor, void *memory) {
    result = memory, result_bytes = static_cast<size_t>(problem.bytes(tensor));
  }

  const polyconv::Device &device_;
  std::vector<polyconv::Memory> memory_;
};

// Words of the result that are not what they were in the first run, of all runs.
uint32_t other_words(const polyconv::Device &device, const std::vector<polyconv::Problem> &chain,
                     const polyconv::Plan &plan, const Tensors &tensors, int runs) {
  const polyconv::Memory workspace(device, static_cast<size_t>(plan.info().workspace_bytes) + 1);
  const polyconv::Memory first(device, tensors.result_bytes), others(device, sizeof(uint32_t));
  polyconv::Buffers buffers = tensors.buffers;
  buffers.workspace = workspace.get(), buffers.workspace_size = workspace.bytes();
  std::vector<polyconv::Weights> packed;
  for (size_t i = 0; i < chain.size(); ++i) {
    const auto layer = static_cast<int32_t>(i);
    if (plan.weights_format(layer) == "raw") continue;
    packed.emplace_back(plan, layer, buffers.weights[i]);
    buffers.packed[i] = packed.back().get();
  }
  const polyconv::Bound bound = plan.bind(buffers);
  const polyconv::Stream stream(device);
  polyconv::require(polyconv_stream_synchronize(device.get(), nullptr)); // weights are packed on the default stream
  device.fill(others.get(), 0, others.bytes(), stream.get());
  const auto run_and_count = [&] {
    bound.run(stream.get());
    cuda_test::count_other_words(first.get(), tensors.result, tensors.result_bytes, others.get(), stream.get());
  };
  bound.run(stream.get());
  device.copy(first.get(), tensors.result, tensors.result_bytes, stream.get());
  for (int run = 0; run < kLaunched; ++run) run_and_count();
  void *graph = nullptr;
  if (runs > kLaunched) {
    polyconv::require(polyconv_graph_begin(device.get(), stream.get()));
    for (int run = 0; run < kRecorded; ++run) run_and_count();
    polyconv::require(polyconv_graph_end(device.get(), stream.get(), &graph));
  }
  for (int run = kLaunched; run < runs; run += kRecorded)
    polyconv::require(polyconv_graph_launch(device.get(), graph, stream.get()));
  uint32_t count = 0;
  device.copy(&count, others.get(), sizeof count, stream.get());
  polyconv::require(polyconv_stream_synchronize(device.get(), stream.get()));
  if (graph != nullptr) polyconv::require(polyconv_graph_destroy(device.get(), graph));
  return count;
}

bool planned(const polyconv::Device &device, const std::vector<polyconv::Problem> &chain,
             const polyconv::Options &options) {
  polyconv_plan *plan = nullptr;
  const auto count = static_cast<int32_t>(chain.size());
  if (polyconv_plan_create(device.get(), chain.data(), count, &options, &plan) != POLYCONV_SUCCESS) return false;
  polyconv_plan_destroy(plan);
  return true;
}

// Runs each kernel of a backend on each problem that it takes.
void check_backend(const std::string &backend) {
  if (cuda_test::no_device()) return;
  const auto begin = std::chrono::steady_clock::now();
  const polyconv::Device device("cuda:0");
  const std::vector<std::string> kernels = cuda_test::kernels_of(backend, std::getenv("POLYCONV_REPEAT"));
  std::set<std::string> configs, taken;
  std::string others;
  int pairs = 0;
  for (const char *tokens : kProblems) {
    const std::vector<polyconv::Problem> chain = chain_of(tokens);
    if ((chain.size() > 1) != (backend == "cuda-chain")) continue;
    const Tensors tensors(device, chain);
    for (const std::string &kernel : kernels) {
      polyconv::Options options;
      options.kernel = kernel.c_str();
      options.math = POLYCONV_MATH_FAST; // the freest
      options.bind = 1;
      if (chain.size() > 1) options.grouping = "8"; // all layers in one
      if (!planned(device, chain, options)) continue;
      const polyconv::Plan plan(chain, options, device);
      INFO(kernel, " on ", std::string(tokens));
      const bool first = configs.insert(kernel).second;
      CHECK(other_words(device, chain, plan, tensors, first ? kRuns : kLaunched) == 0);
      taken.insert(kernel.substr(0, kernel.find('@'))), ++pairs;
    }
  }
  for (const std::string &kernel : kernels)
    if (configs.count(kernel) == 0) others += " " + kernel;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  MESSAGE(backend << ": " << configs.size() << " of " << kernels.size() << " configs, " << pairs
                  << " with their problems, " << seconds.count() << " s"
                  << (others.empty() ? "" : "; no problem for" + others));
  for (const std::string &kernel : kernels) {
    INFO(kernel, ": no problem of this test is one that it takes");
    CHECK(taken.count(kernel.substr(0, kernel.find('@'))) == 1);
  }
}

} // namespace

TEST_CASE("the kernels of cuda-tensor give the same bits in 1000 runs") {
  check_backend("cuda-tensor");
}

TEST_CASE("the kernels of cuda-chain give the same bits in 1000 runs") {
  check_backend("cuda-chain");
}
