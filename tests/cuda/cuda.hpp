// cuda.hpp - what the CUDA tests share: the device or the reason why there is none, and one small layer on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <polyconv/polyconv.hpp>

#include <memory>
#include <string>
#include <vector>

#include "skip.hpp"

namespace cuda_test {

// False, with the test case marked as skipped, where no CUDA device answers.
inline bool no_device() {
  const polyconv_device *device = nullptr;
  if (polyconv_device_find("cuda:0", &device) == POLYCONV_SUCCESS) return false;
  polyconv_test::skip(polyconv_last_error());
  return true;
}

// Floats in device memory.
class Floats {
 public:
  Floats(const polyconv::Device &device, const std::vector<float> &values)
      : device_(device), count_(values.size()), memory_(device, values.size() * sizeof(float)) {
    set(values);
  }
  void *get() const { return memory_.get(); }
  void set(const std::vector<float> &values) {
    device_.copy(memory_.get(), values.data(), count_ * sizeof(float));
    polyconv::require(polyconv_stream_synchronize(device_.get(), nullptr));
  }
  // What is there once `stream` is done.
  std::vector<float> values(void *stream = nullptr) const {
    std::vector<float> result(count_);
    device_.copy(result.data(), memory_.get(), count_ * sizeof(float), stream);
    polyconv::require(polyconv_stream_synchronize(device_.get(), stream));
    return result;
  }

 private:
  polyconv::Device device_;
  size_t count_;
  polyconv::Memory memory_;
};

inline std::vector<float> numbers(int64_t bytes, unsigned seed) {
  std::vector<float> result(static_cast<size_t>(bytes) / sizeof(float));
  for (float &v : result) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 28) - 8;
  }
  return result;
}

// One f32 layer planned by one kernel, with weights of its own, packed where the kernel wants that.
class Layer {
 public:
  Layer(const polyconv::Device &device, const std::string &token, const std::string &kernel, unsigned seed)
      : problem(token),
        plan(problem, options(kernel), device),
        input(device, numbers(problem.bytes(POLYCONV_TENSOR_INPUT), seed)),
        weights(device, numbers(problem.bytes(POLYCONV_TENSOR_WEIGHTS), seed + 1)),
        output(device, numbers(problem.bytes(POLYCONV_TENSOR_OUTPUT), seed + 2)),
        workspace(device, static_cast<size_t>(plan.info().workspace_bytes) + 1) {
    buffers.input = input.get();
    buffers.output = output.get();
    buffers.weights[0] = weights.get();
    buffers.workspace = workspace.get();
    buffers.workspace_size = workspace.bytes();
    if (plan.weights_format() != "raw") {
      packed = std::make_unique<polyconv::Weights>(plan, 0, weights.get());
      polyconv::require(polyconv_stream_synchronize(device.get(), nullptr));
      buffers.packed[0] = packed->get();
    }
    if (plan.info().needs_bind) bound = std::make_unique<polyconv::Bound>(plan.bind(buffers));
  }

  void run(void *stream = nullptr) const { bound ? bound->run(stream) : plan.run(buffers, stream); }

  static polyconv::Options options(const std::string &kernel) {
    polyconv::Options result;
    result.kernel = kernel.c_str(); // planning copies what it keeps
    result.fallback = POLYCONV_FALLBACK_ALLOW;
    result.bind = 1;
    if (kernel.rfind("cuda-tensor/", 0) == 0) result.math = POLYCONV_MATH_FAST; // what it does with f32 is named so
    return result;
  }

  polyconv::Problem problem;
  polyconv::Plan plan;
  polyconv::Buffers buffers;
  Floats input, weights, output;
  polyconv::Memory workspace;
  std::unique_ptr<polyconv::Weights> packed;
  std::unique_ptr<polyconv::Bound> bound;
};

// The layers of these tests: few channels, many, depthwise, channels last.
inline const char *const kLayers[] = {"fwd:n2,c1,k4,i30x33,f5x5,p2", "fwd:n2,c8,k16,i17x19,f3x3,p1",
                                      "fwd:n2,c16,k16,g16,i20x20,f3x3,p1", "fwd:n2,c16,k24,i14x15,f3x3,p1:nhwc"};

} // namespace cuda_test
