// cuda_repeat_test.cpp - every kernel of cuda-tensor and cuda-chain, in every config, gives the same bits in each of
// 1000 runs. They hand tiles from warp to warp by barriers of their own, which racecheck does not follow; in a build
// with POLYCONV_STRESS warps sleep at random where they meet, and a missing wait shows as other bits.
// POLYCONV_REPEAT, a part of a kernel's full name, looks at some of them.
// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "other_words.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <set>

namespace {

constexpr int kRuns = 1000;

// Layers, then chains: tiles to spare for every multiprocessor, ragged last tiles, tails of channels. Each kernel takes
// one at least, which is checked.
constexpr const char *kProblems[] = {
    // f32: TF32 or emulated. Taps near by, at stride 2, of few channels; channels last; few channels in and out.
    "fwd:n16,c64,k128,i28x28,f3x3,p1",
    "fwd:n3,c128,k192,i27x27,f3x3,s2,p1:bias+relu",
    "fwd:n9,c3,k72,i61x59,f7x7,s2,p3",
    "fwd:n9,c3,k16,i61x59,f3x3,p1:nhwc:bias",
    "fwd:n6,c64,k96,i30x29,f3x3,p1:nhwc",
    "fwd:n3,c64,k3,i41x40,f3x3,p1:nhwc",
    "fwd:n60,c1,k4,i86x86,f7x7",
    "fwd:n2,c1,k2,i301x260,f5x5,p2",
    // Half precision: two taps' phases of stride 2, tails, one tap deep and wide, groups, pixels of no whole 16 bytes.
    "fwd:n64,c64,k128,i28x28,f3x3,p1:nhwc:f16",
    "fwd:n3,c128,k192,i27x27,f3x3,s2,p1:nhwc:bf16:bias+relu",
    "fwd:n5,c40,k72,i19x23,f3x3,p1:nhwc:f16",
    "fwd:n24,c128,k256,i28x32,f3x3,p1:nhwc:f16:bias",
    "fwd:n20,c64,k64,i28x28,f3x3,p1:nhwc:f16",
    "fwd:n2,c1280,k640,i8x8,f1x1:nhwc:f16:bias",
    "fwd:n6,c24,k144,i55x56,f1x1:nhwc:f16:bias+clip6",
    "fwd:n6,c144,k24,i55x56,f1x1:nhwc:bf16:bias+residual",
    "fwd:n3,c33,k50,i21x22,f3x3,p1:nhwc:f16",
    "fwd:n3,c33,k50,i21x22,f3x3,p1:nhwc:f16:pad=reflect",
    "fwd:n8,c64,k64,g8,i14x14,f3x3,p1:nhwc:f16",
    "fwd:n8,c88,k88,g22,i29x28,f3x3,s2,p1:nhwc:f16", // groups in pairs, and less than a slice of them
    "fwd:n4,c3,k64,i61x59,f7x7,s2,p3:nhwc:f16",
    "fwd:n4,c64,k3,i41x40,f3x3,p1:nhwc:f16",
    "fwd:n60,c1,k4,i86x86,f7x7:f16:bias+relu",
    "fwd:n60,c4,k16,i40x40,f7x7:f16",
    "fwd:n60,c12,k24,i33x33,f7x7:bf16",
    "fwd:n60,c1,k50,i28x28,f5x5:f16",
    "fwd:n1500,c1,k8,i14x14,f3x3:f16",
    "fwd:n4200,c1,k32,i18x18,f3x3:f16",       // banded: blocks come back for each of so many images
    "fwd:n300,c1,k85,i32x32,f3x3:f16",        // banded: shares without filters, the same warp's in every image
    "fwd:n70,c2040,k1000,i1x1,f1x1:f16:bias", // one pixel
    "fwd:n9,c637,k330,i1x1,f1x1:bf16:bias",
    // Gradients.
    "bwd_d:n70,c1000,k2040,i1x1,f1x1:f16",
    "bwd_w:n70,c1000,k2040,i1x1,f1x1:f16",
    "bwd_w:n70,c637,k330,i1x1,f1x1:bf16",
    "bwd_d:n12,c128,k64,i28x28,f3x3,p1:nhwc:f16",
    "bwd_d:n6,c128,k64,i29x28,f3x3,s2,p1:nhwc:f16",
    "bwd_d:n2,c64,k1024,i7x7,f3x3,p1:nhwc:f16",
    "bwd_d:n10,c64,k64,i28x28,f3x3,p1:nhwc:bf16",
    "bwd_d:n4,c3,k64,i61x59,f7x7,s2,p3:nhwc:f16",
    "bwd_d:n3,c33,k50,i21x22,f3x3,p1:nhwc:f16",
    "bwd_d:n8,c64,k64,g8,i14x14,f3x3,p1:nhwc:f16",
    "bwd_d:n6,c64,k96,i30x29,f3x3,p1:nhwc",
    "bwd_w:n12,c128,k64,i28x28,f3x3,p1:nhwc:f16",
    "bwd_w:n4,c3,k64,i61x59,f7x7,s2,p3:nhwc:bf16",
    "bwd_w:n6,c64,k96,i30x29,f3x3,p1:nhwc",
    // Images, and LeNets.
    "fwd:i500x516,f5x5,p2 > fwd:i500x516,f3x3,p1 > fwd:i500x516,f3x3,p1",
    "fwd:i500x516,f5x5,p2:u8-f32-u8:pad=replicate > fwd:i500x516,f3x3,p1:u8-f32-u8:pad=replicate",
    "fwd:n301,c1,k6,i28x28,f5x5,p2:bias+relu > fwd:n301,c6,k16,i28x28,f4x4,s2:bias+relu > "
    "fwd:n301,c16,k8,i13x13,f3x3,p1:bias+relu > fwd:n301,c8,k4,i13x13,f3x3:bias+relu",
    "fwd:n1500,c1,k6,i28x28,f5x5,p2:f16:bias+relu > fwd:n1500,c6,k16,i28x28,f4x4,s2:f16:bias+relu > "
    "fwd:n1500,c16,k8,i13x13,f3x3,p1:f16:bias+relu > fwd:n1500,c8,k4,i13x13,f3x3:f16:bias+relu",
    "fwd:n301,c1,k6,i28x28,f5x5,p2:bias+relu+maxpool2 > fwd:n301,c6,k16,i14x14,f5x5:bias+relu+maxpool2",
    "fwd:n1500,c1,k6,i28x28,f5x5,p2:f16:bias+relu+maxpool2 > fwd:n1500,c6,k16,i14x14,f5x5:f16:bias+relu+maxpool2",
    "fwd:n50,c1,k4,i86x86,f7x7:f16:bias+relu+maxpool2 > fwd:n50,c4,k16,i40x40,f7x7:f16:bias+relu+maxpool4",
    "fwd:n4,c3,k16,i40x33,f3x3,p1:nhwc:f16:bias+relu > fwd:n4,c16,k16,i40x33,f3x3,p1:nhwc:f16:bias+relu",
    // Depthwise and pointwise, alone and with what widens before them.
    "fwd:n20,c144,k144,g144,i29x28,f3x3,p1:nhwc:f16:bias+clip6 > fwd:n20,c144,k32,i29x28,f1x1:nhwc:f16:bias",
    "fwd:n20,c104,k104,g104,i29x28,f3x3,s2,p1:nhwc:bf16:bias+clip6 > fwd:n20,c104,k64,i15x14,f1x1:nhwc:bf16:bias",
    "fwd:n20,c960,k960,g960,i7x7,f3x3,p1:nhwc:f16:bias+clip6 > fwd:n20,c960,k320,i7x7,f1x1:nhwc:f16:bias+residual",
    "fwd:n12,c144,k144,g144,i29x28,f3x3,p1:nhwc:bias+clip6 > fwd:n12,c144,k32,i29x28,f1x1:nhwc:bias",
    "fwd:n12,c104,k104,g104,i29x28,f3x3,s2,p1:nhwc:bias+clip6 > fwd:n12,c104,k64,i15x14,f1x1:nhwc:bias",
    "fwd:n6,c24,k144,i29x28,f1x1:nhwc:f16:bias+clip6 > fwd:n6,c144,k144,g144,i29x28,f3x3,p1:nhwc:f16:bias+clip6 > "
    "fwd:n6,c144,k24,i29x28,f1x1:nhwc:f16:bias+residual=input",
    "fwd:n6,c24,k144,i29x28,f1x1:nhwc:bf16:bias+clip6 > fwd:n6,c144,k144,g144,i29x28,f3x3,s2,p1:nhwc:bf16:bias+clip6 > "
    "fwd:n6,c144,k32,i15x14,f1x1:nhwc:bf16:bias",
    "fwd:n4,c24,k72,i14x14,f1x1:nhwc:bias+clip6 > fwd:n4,c72,k72,g72,i14x14,f3x3,p1:nhwc:bias+clip6 > "
    "fwd:n4,c72,k24,i14x14,f1x1:nhwc:bias+residual=input",
};

std::vector<polyconv::Problem> chain_of(const std::string &tokens) {
  std::vector<polyconv::Problem> chain;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 3) {
    end = tokens.find(" > ", begin);
    chain.emplace_back(tokens.substr(begin, end - begin));
  }
  return chain;
}

std::vector<std::string> kernels_of(const std::string &backend) {
  const char *part = std::getenv("POLYCONV_REPEAT");
  std::vector<std::string> names;
  for (int32_t b = 0; b < polyconv_backend_count(); ++b)
    for (int32_t k = 0; const char *kernel = polyconv_backend_kernel(b, k); ++k)
      for (int32_t c = 0; const char *config = polyconv_backend_config(b, k, c); ++c) {
        const std::string name = std::string(kernel) + "@" + config;
        if (name.rfind(backend + "/", 0) == 0 && (part == nullptr || name.find(part) != std::string::npos))
          names.push_back(name);
      }
  return names;
}

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
                     const polyconv::Plan &plan, const Tensors &tensors) {
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
  device.fill(others.get(), 0, others.bytes());
  for (int run = 0; run < kRuns; ++run) {
    bound.run();
    if (run == 0) device.copy(first.get(), tensors.result, tensors.result_bytes);
    cuda_test::count_other_words(first.get(), tensors.result, tensors.result_bytes, others.get());
  }
  uint32_t count = 0;
  device.copy(&count, others.get(), sizeof count);
  polyconv::require(polyconv_stream_synchronize(device.get(), nullptr));
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
  const std::vector<std::string> kernels = kernels_of(backend);
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
      CHECK(other_words(device, chain, plan, tensors) == 0);
      configs.insert(kernel), taken.insert(kernel.substr(0, kernel.find('@'))), ++pairs;
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
