// cuda_run_test.cpp - runs on a GPU as programs make them: captured in graphs, on two streams at once, on a thread
// whose current device is its own business, with wrong pointers, after failures. Every kernel of every CUDA plug-in.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstring>

#include "cuda.hpp"

using cuda_test::kLayers;
using cuda_test::Layer;
using cuda_test::no_device;
using cuda_test::numbers;
using polyconv::Device;

namespace {

// The full names of every kernel and config of the CUDA plug-ins that are available.
std::vector<std::string> kernel_names() {
  std::vector<std::string> result;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info = {};
    info.struct_size = sizeof info;
    polyconv::require(polyconv_backend_get(i, &info));
    if (!info.available || std::strcmp(info.device_kind, "cuda") != 0) continue;
    for (int32_t k = 0; const char *kernel = polyconv_backend_kernel(i, k); ++k)
      for (int32_t c = 0; const char *config = polyconv_backend_config(i, k, c); ++c)
        result.push_back(std::string(kernel) + "@" + config);
  }
  return result;
}

bool takes(const Device &device, const std::string &kernel, const char *token) {
  polyconv_plan *plan = nullptr;
  const polyconv::Problem problem(token);
  const polyconv::Options options = Layer::options(kernel);
  const polyconv_status status = polyconv_plan_create(device.get(), &problem, 1, &options, &plan);
  polyconv_plan_destroy(plan);
  return status == POLYCONV_SUCCESS;
}

// Calls visit(token, kernel) for every CUDA kernel and config that takes one of the layers.
template <class Visit>
int for_kernels(const Device &device, const Visit &visit) {
  int taken = 0;
  for (const std::string &kernel : kernel_names())
    for (const char *token : kLayers) {
      if (!takes(device, kernel, token)) continue;
      CAPTURE(kernel);
      CAPTURE(std::string(token));
      visit(std::string(token), kernel);
      ++taken;
    }
  return taken;
}

} // namespace

TEST_CASE("a plan runs as before when its kernel is planned for a layer that needs less shared memory") {
  if (no_device()) return;
  const Device device("cuda:0");
  const char *const more = "fwd:n1,c64,k64,i56x56,f3x3,p1:nhwc:f16";
  const char *const less = "fwd:n1,c64,k64,i28x28,f3x3,p1:nhwc:f16";
  for (const std::string &kernel : kernel_names()) {
    if (kernel.rfind("cuda-", 0) != 0 || !takes(device, kernel, more) || !takes(device, kernel, less)) continue;
    CAPTURE(kernel);
    Layer first(device, more, kernel, 1);
    first.run();
    const std::vector<float> expected = first.output.values();
    const Layer second(device, less, kernel, 2);
    second.run();
    first.output.set(std::vector<float>(expected.size(), 0.f));
    first.run();
    CHECK(first.output.values() == expected);
  }
}

TEST_CASE("every kernel's run is captured in a graph and replayed on new data") {
  if (no_device()) return;
  const Device device("cuda:0");
  const int taken = for_kernels(device, [&](const std::string &token, const std::string &kernel) {
    Layer layer(device, token, kernel, 1);
    polyconv::Stream stream(device);
    layer.run(stream.get());
    const std::vector<float> first = layer.output.values(stream.get());
    const std::vector<float> other = numbers(layer.problem.bytes(POLYCONV_TENSOR_INPUT), 77);
    void *graph = nullptr;
    polyconv::require(polyconv_graph_begin(device.get(), stream.get()));
    layer.run(stream.get());
    polyconv::require(polyconv_graph_end(device.get(), stream.get(), &graph));
    layer.input.set(other);
    layer.run(stream.get());
    const std::vector<float> expected = layer.output.values(stream.get());
    CHECK(expected != first);
    layer.output.set(first);
    polyconv::require(polyconv_graph_launch(device.get(), graph, stream.get()));
    CHECK(layer.output.values(stream.get()) == expected);
    polyconv::require(polyconv_graph_destroy(device.get(), graph));
  });
  MESSAGE(taken << " pairs of kernel and layer");
  CHECK(taken > 0);
}

TEST_CASE("two plans with different weights run on two streams at once") {
  if (no_device()) return;
  const Device device("cuda:0");
  for_kernels(device, [&](const std::string &token, const std::string &kernel) {
    Layer a(device, token, kernel, 1), b(device, token, kernel, 100);
    b.input.set(numbers(b.problem.bytes(POLYCONV_TENSOR_INPUT), 1)); // they differ in nothing but weights
    a.run();
    const std::vector<float> expected_a = a.output.values();
    b.run();
    const std::vector<float> expected_b = b.output.values();
    CHECK(expected_a != expected_b);
    polyconv::Stream first(device), second(device);
    a.output.set(expected_b);
    b.output.set(expected_a);
    for (int i = 0; i < 50; ++i) {
      a.run(first.get());
      b.run(second.get());
    }
    CHECK(a.output.values(first.get()) == expected_a);
    CHECK(b.output.values(second.get()) == expected_b);
  });
}

TEST_CASE("tensors may begin at any element") {
  if (no_device()) return;
  const Device device("cuda:0");
  for_kernels(device, [&](const std::string &token, const std::string &kernel) {
    if (kernel.rfind("cudnn/", 0) == 0) return; // says at bind that it wants 16 bytes
    Layer layer(device, token, kernel, 1);
    layer.run();
    const std::vector<float> expected = layer.output.values();
    const std::vector<float> input = layer.input.values();
    const size_t input_bytes = input.size() * sizeof(float), output_bytes = expected.size() * sizeof(float);
    polyconv::Memory moved_input(device, input_bytes + sizeof(float)),
        moved_output(device, output_bytes + sizeof(float));
    layer.buffers.input = static_cast<float *>(moved_input.get()) + 1;
    layer.buffers.output = static_cast<float *>(moved_output.get()) + 1;
    device.copy(layer.buffers.input, input.data(), input_bytes);
    CHECK(polyconv_buffers_check(layer.plan.get(), &layer.buffers) == POLYCONV_SUCCESS);
    if (layer.bound) layer.bound = std::make_unique<polyconv::Bound>(layer.plan.bind(layer.buffers));
    layer.run();
    std::vector<float> values(expected.size());
    device.copy(values.data(), layer.buffers.output, output_bytes);
    polyconv::require(polyconv_stream_synchronize(device.get(), nullptr));
    CHECK(values == expected); // small integers: whatever the order of the sums
  });
}

TEST_CASE("a run gives the caller's current device back") {
  if (no_device()) return;
  int devices = 0, current = -1;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  const int mine = devices - 1; // another one than cuda:0 where there are several
  REQUIRE(cudaSetDevice(mine) == cudaSuccess);
  const Layer layer(Device("cuda:0"), kLayers[1], "cuda-direct/direct", 1);
  layer.run();
  layer.output.values();
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == mine);
}

TEST_CASE("host pointers are refused by name") {
  if (no_device()) return;
  const Device device("cuda:0");
  Layer layer(device, kLayers[1], "cuda-direct/direct", 1);
  CHECK(polyconv_buffers_check(layer.plan.get(), &layer.buffers) == POLYCONV_SUCCESS);
  std::vector<float> host = numbers(layer.problem.bytes(POLYCONV_TENSOR_INPUT), 1);
  layer.buffers.input = host.data();
  CHECK(polyconv_buffers_check(layer.plan.get(), &layer.buffers) == POLYCONV_INVALID_ARGUMENT);
  const std::string sentence = polyconv_last_error();
  CHECK(sentence.find("input is host memory") != std::string::npos);
  CHECK(sentence.find("cuda:0") != std::string::npos);
}

TEST_CASE("a launch that fails is a status, and the next run works") {
  if (no_device()) return;
  const Device device("cuda:0");
  const Layer layer(device, kLayers[1], "cuda-direct/direct", 1);
  layer.run();
  const std::vector<float> expected = layer.output.values();
  // While a stream that the default one waits for is being recorded, the default one takes nothing.
  cudaStream_t recorded = nullptr;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamCreate(&recorded) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(recorded, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(polyconv_run(layer.plan.get(), &layer.buffers, nullptr) == POLYCONV_DEVICE_ERROR);
  CHECK(std::string(polyconv_last_error()).find("CUDA") != std::string::npos);
  CHECK(cudaStreamEndCapture(recorded, &graph) != cudaSuccess);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  CHECK(cudaStreamDestroy(recorded) == cudaSuccess);
  layer.run();
  CHECK(layer.output.values() == expected);
}

TEST_CASE("an empty batch plans and runs") {
  if (no_device()) return;
  const Device device("cuda:0");
  polyconv::Problem problem("fwd:n0,c3,k4,i9x9,f3x3");
  const polyconv::Plan plan(problem, Layer::options("cuda-direct/direct"), device);
  const polyconv::Memory weights(device, static_cast<size_t>(problem.bytes(POLYCONV_TENSOR_WEIGHTS)));
  polyconv::Buffers buffers;
  buffers.weights[0] = weights.get();
  CHECK(polyconv_run(plan.get(), &buffers, nullptr) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_synchronize(device.get(), nullptr) == POLYCONV_SUCCESS);
}
