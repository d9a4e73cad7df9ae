// cuda_repeat_test.cpp - every config of the Hopper kernels of cuda-tensor gives the same bits in each of 1000 runs.
// They hand tiles from warp to warp by barriers of their own, which racecheck does not follow; in a build with
// POLYCONV_STRESS warps sleep at random where they meet, and a missing wait shows as other bits.
// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "other_words.hpp"

#include <cstdint>
#include <cstring>

namespace {

constexpr int kRuns = 1000;
// f32, as TF32, channels first: with taps near by, at stride 2, of few channels. Then tiles to spare for every
// multiprocessor; two taps' phases of stride 2; tails of channels and a ragged last tile.
constexpr const char *kProblems[] = {"fwd:n24,c64,k128,i28x28,f3x3,p1",
                                     "fwd:n3,c128,k192,i27x27,f3x3,s2,p1:bias+relu",
                                     "fwd:n9,c3,k72,i61x59,f7x7,s2,p3",
                                     "fwd:n96,c64,k128,i28x28,f3x3,p1:nhwc:f16",
                                     "fwd:n3,c128,k192,i27x27,f3x3,s2,p1:nhwc:bf16:bias+relu",
                                     "fwd:n5,c40,k72,i19x23,f3x3,p1:nhwc:f16"};

// Numbers below 2, as f16 and as bf16.
std::vector<uint16_t> numbers(int64_t bytes, uint32_t seed) {
  std::vector<uint16_t> values(static_cast<size_t>(bytes) / 2);
  for (uint16_t &v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<uint16_t>(seed >> 16 & 0xbfffu);
  }
  return values;
}

std::vector<std::string> hopper_kernels() {
  std::vector<std::string> names;
  for (int32_t b = 0; b < polyconv_backend_count(); ++b)
    for (int32_t k = 0; const char *kernel = polyconv_backend_kernel(b, k); ++k)
      for (int32_t c = 0; const char *config = polyconv_backend_config(b, k, c); ++c)
        if (std::strncmp(kernel, "cuda-tensor/wgmma", 17) == 0) names.push_back(std::string(kernel) + "@" + config);
  return names;
}

class Job {
 public:
  Job(const polyconv::Device &device, const polyconv::Problem &problem, const polyconv::Plan &plan)
      : device_(device),
        plan_(plan),
        input_(filled(problem, POLYCONV_TENSOR_INPUT)),
        weights_(filled(problem, POLYCONV_TENSOR_WEIGHTS)),
        bias_(device, 4096), // zeros
        output_(filled(problem, POLYCONV_TENSOR_OUTPUT)),
        first_(device, output_.bytes()),
        others_(device, sizeof(uint32_t)),
        workspace_(device, static_cast<size_t>(plan.info().workspace_bytes) + 1),
        packed_(plan, 0, weights_.get()) {
    device_.fill(bias_.get(), 0, bias_.bytes());
    buffers_.input = input_.get(), buffers_.output = output_.get(), buffers_.packed[0] = packed_.get();
    buffers_.bias[0] = bias_.get();
    buffers_.workspace = workspace_.get(), buffers_.workspace_size = workspace_.bytes();
  }

  // Words that are not what they were in the first run, of all runs.
  uint32_t others() {
    plan_.run(buffers_);
    device_.copy(first_.get(), output_.get(), output_.bytes());
    device_.fill(others_.get(), 0, sizeof(uint32_t));
    for (int run = 1; run < kRuns; ++run) {
      plan_.run(buffers_);
      cuda_test::count_other_words(first_.get(), output_.get(), output_.bytes(), others_.get());
    }
    uint32_t count = 0;
    device_.copy(&count, others_.get(), sizeof count);
    polyconv::require(polyconv_stream_synchronize(device_.get(), nullptr));
    return count;
  }

 private:
  polyconv::Memory filled(const polyconv::Problem &problem, int32_t tensor) {
    const std::vector<uint16_t> values = numbers(problem.bytes(tensor), 1u + static_cast<uint32_t>(tensor));
    polyconv::Memory memory(device_, values.size() * 2);
    device_.copy(memory.get(), values.data(), values.size() * 2);
    polyconv::require(polyconv_stream_synchronize(device_.get(), nullptr));
    return memory;
  }

  const polyconv::Device &device_;
  const polyconv::Plan &plan_;
  polyconv::Memory input_, weights_, bias_, output_, first_, others_, workspace_;
  polyconv::Weights packed_;
  polyconv::Buffers buffers_;
};

} // namespace

TEST_CASE("the Hopper kernels give the same bits in 1000 runs") {
  if (cuda_test::no_device()) return;
  const polyconv::Device device("cuda:0");
  int taken = 0;
  for (const char *token : kProblems)
    for (const std::string &kernel : hopper_kernels()) {
      const polyconv::Problem problem(token);
      polyconv::Options options;
      options.kernel = kernel.c_str();
      options.math = POLYCONV_MATH_TF32;
      polyconv_plan *planned = nullptr;
      if (polyconv_plan_create(device.get(), &problem, 1, &options, &planned) != POLYCONV_SUCCESS) continue;
      polyconv_plan_destroy(planned);
      const polyconv::Plan plan(problem, options, device);
      Job job(device, problem, plan);
      INFO(kernel, " on ", token);
      CHECK(job.others() == 0);
      ++taken;
    }
  if (taken == 0) polyconv_test::skip("no Hopper kernel of cuda-tensor takes these layers on this device");
}
