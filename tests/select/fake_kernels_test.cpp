// fake_kernels_test.cpp - the plug-in ABI from end to end, with backends that only tests know: packed weights, two
// layers fused in one kernel, and a device with memory, streams and graphs of its own, where a host pointer, a
// forgotten copy or a missing wait shows.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fake_backends/fakes.hpp"

namespace {

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

// Loads a fake unless an earlier case did.
void load(const char *fake) {
  const std::string path = fakes::path(fake);
  const polyconv_status status = polyconv_backend_load(path.c_str());
  const bool loaded = status == POLYCONV_SUCCESS || contains(polyconv_last_error(), "already loaded from '" + path);
  CAPTURE(polyconv_last_error());
  REQUIRE(loaded);
}

polyconv_problem parse(const char *token) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  const polyconv_status status = polyconv_problem_parse(token, &problem);
  CAPTURE(polyconv_last_error());
  REQUIRE(status == POLYCONV_SUCCESS);
  return problem;
}

// Small integers: every sum is exact, whatever its order.
std::vector<float> integers(size_t count, int seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 11 - 5);
  return values;
}

size_t elements(const polyconv_problem &problem, int32_t which) {
  int64_t bytes = 0;
  REQUIRE(polyconv_problem_tensor(&problem, which, nullptr, &bytes) == POLYCONV_SUCCESS);
  return static_cast<size_t>(bytes) / sizeof(float);
}

// The host's arrays of a layer or a chain.
struct Arrays {
  explicit Arrays(const std::vector<polyconv_problem> &problems) {
    input = integers(elements(problems.front(), POLYCONV_TENSOR_INPUT), 1);
    output.assign(elements(problems.back(), POLYCONV_TENSOR_OUTPUT), -12345);
    for (const polyconv_problem &problem : problems) {
      weights.push_back(integers(elements(problem, POLYCONV_TENSOR_WEIGHTS), 2));
      bias.push_back(problem.epilogue.has_bias ? integers(elements(problem, POLYCONV_TENSOR_BIAS), 3)
                                               : std::vector<float>());
    }
    polyconv_buffers_init(&buffers);
    buffers.input = input.data();
    buffers.output = output.data();
    for (size_t i = 0; i < problems.size(); ++i) {
      buffers.weights[i] = weights[i].data();
      buffers.bias[i] = bias[i].empty() ? nullptr : bias[i].data();
    }
  }

  std::vector<float> input, output;
  std::vector<std::vector<float>> weights, bias;
  polyconv_buffers buffers;
};

std::vector<float> convolve(const std::vector<polyconv_problem> &problems, const char *kernel,
                            const polyconv_device *device = nullptr) {
  Arrays arrays(problems);
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel;
  const polyconv_status status =
      polyconv_convolve(device, problems.data(), static_cast<int32_t>(problems.size()), &options, &arrays.buffers);
  CAPTURE(polyconv_last_error());
  REQUIRE(status == POLYCONV_SUCCESS);
  return arrays.output;
}

const char *const kToken = "fwd:n2,c4,k6,g2,i7x5,f3x2,s2x1,p1x0,d1x2:bias+relu";

const polyconv_device *fake_device() {
  load("device");
  const polyconv_device *device = nullptr;
  REQUIRE(polyconv_device_find("fake:1", &device) == POLYCONV_SUCCESS);
  return device;
}

std::string description(const polyconv_device *device) {
  polyconv_device_properties properties{};
  properties.struct_size = sizeof properties;
  REQUIRE(polyconv_device_get_properties(device, &properties) == POLYCONV_SUCCESS);
  return properties.description;
}

// Device memory for one test case.
struct DeviceArray {
  DeviceArray(const polyconv_device *on, const std::vector<float> &values) : device(on), size(values.size() * 4) {
    REQUIRE(polyconv_device_alloc(device, size, POLYCONV_MEMORY_DEVICE, &pointer) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_device_copy(device, pointer, values.data(), size, nullptr) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_stream_synchronize(device, nullptr) == POLYCONV_SUCCESS);
  }
  ~DeviceArray() { polyconv_device_free(device, pointer, POLYCONV_MEMORY_DEVICE); }
  DeviceArray(const DeviceArray &) = delete;
  DeviceArray &operator=(const DeviceArray &) = delete;

  std::vector<float> read() const {
    std::vector<float> values(size / 4);
    REQUIRE(polyconv_device_copy(device, values.data(), pointer, size, nullptr) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_stream_synchronize(device, nullptr) == POLYCONV_SUCCESS);
    return values;
  }

  const polyconv_device *device;
  size_t size;
  void *pointer = nullptr;
};

} // namespace

TEST_CASE("raw and packed kernels of a plug-in agree with the reference") {
  load("good");
  const std::vector<polyconv_problem> problem{parse(kToken)};
  const std::vector<float> expected = convolve(problem, "reference/*");
  CHECK(convolve(problem, "fake-good/direct@plain") == expected);
  CHECK(convolve(problem, "fake-good/negated@first") == expected);
  CHECK(convolve(problem, "fake-good/negated@second") == expected);
}

TEST_CASE("a kernel that fuses two layers takes a chain, and only such a chain") {
  load("fuses_two");
  const std::vector<polyconv_problem> chain{parse("fwd:n2,c3,k5,i4x3:bias+relu"), parse("fwd:n2,c5,k2,i4x3")};
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = "fake-fuses-two/*";
  polyconv_plan *plan = nullptr;
  REQUIRE(polyconv_plan_create(nullptr, chain.data(), 2, &options, &plan) == POLYCONV_SUCCESS);
  polyconv_plan_info info{};
  info.struct_size = sizeof info;
  CHECK(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
  CHECK(std::string(info.kernel) == "fake-fuses-two/pointwise_pair@pixel");
  CHECK(info.step_count == 1);
  CHECK(info.workspace_bytes >= 5 * 4);
  polyconv_plan_destroy(plan);
  CHECK(convolve(chain, "fake-fuses-two/*") == convolve(chain, "reference/*"));

  plan = nullptr;
  CHECK(polyconv_plan_create(nullptr, chain.data(), 1, &options, &plan) == POLYCONV_UNSUPPORTED);
  CHECK(contains(polyconv_last_error(), "fuses two layers, not 1"));
  CHECK(plan == nullptr);
}

TEST_CASE("a one-shot convolution on a device copies, packs, runs and waits") {
  const polyconv_device *device = fake_device();
  const std::vector<polyconv_problem> problem{parse(kToken)};
  const std::vector<float> expected = convolve(problem, "reference/*");
  CHECK(convolve(problem, "fake-device/direct", device) == expected);
  CHECK(convolve(problem, "fake-device/packed", device) == expected);
  CHECK(convolve(problem, "fake-device/hosted", device) == expected);
  CHECK(contains(description(device), "live 0")); // all of it is given back
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = "reference/*";
  polyconv_plan *plan = nullptr;
  CHECK(polyconv_plan_create(device, problem.data(), 1, &options, &plan) == POLYCONV_UNAVAILABLE);
  CHECK(contains(polyconv_last_error(), "fake:1"));
}

TEST_CASE("a device's plan is asynchronous, can be captured, and refuses host memory") {
  const char *kernel = nullptr;
  SUBCASE("packed weights in the device's memory") {
    kernel = "fake-device/packed";
  }
  SUBCASE("packed weights that run takes along from the host") {
    kernel = "fake-device/hosted";
  }
  const polyconv_device *device = fake_device();
  const std::vector<polyconv_problem> problem{parse(kToken)};
  const std::vector<float> expected = convolve(problem, "reference/*");
  Arrays arrays(problem);
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel;
  polyconv_plan *plan = nullptr;
  polyconv_weights *packed = nullptr;
  void *stream = nullptr, *graph = nullptr;
  REQUIRE(polyconv_plan_create(device, problem.data(), 1, &options, &plan) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_stream_create(device, &stream) == POLYCONV_SUCCESS);
  {
    const DeviceArray input(device, arrays.input), weights(device, arrays.weights[0]), bias(device, arrays.bias[0]);
    const DeviceArray output(device, arrays.output);
    REQUIRE(polyconv_weights_create(plan, 0, weights.pointer, nullptr, stream, &packed) == POLYCONV_SUCCESS);
    polyconv_buffers buffers;
    polyconv_buffers_init(&buffers);
    buffers.input = input.pointer;
    buffers.output = output.pointer;
    buffers.packed[0] = packed;
    buffers.bias[0] = bias.pointer;
    CHECK(polyconv_buffers_check(plan, &buffers) == POLYCONV_SUCCESS);
    CHECK(polyconv_run(plan, &buffers, stream) == POLYCONV_SUCCESS);
    CHECK(output.read() == arrays.output); // nobody has waited for the stream
    CHECK(polyconv_stream_synchronize(device, stream) == POLYCONV_SUCCESS);
    CHECK(output.read() == expected);

    REQUIRE(polyconv_device_fill(device, output.pointer, 0, output.size, nullptr) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_graph_begin(device, stream) == POLYCONV_SUCCESS);
    CHECK(polyconv_run(plan, &buffers, stream) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_graph_end(device, stream, &graph) == POLYCONV_SUCCESS);
    CHECK(output.read() == std::vector<float>(expected.size()));
    CHECK(polyconv_graph_launch(device, graph, stream) == POLYCONV_SUCCESS);
    CHECK(polyconv_stream_synchronize(device, stream) == POLYCONV_SUCCESS);
    CHECK(output.read() == expected);
    CHECK(polyconv_graph_destroy(device, graph) == POLYCONV_SUCCESS);

    buffers.input = arrays.input.data();
    CHECK(polyconv_buffers_check(plan, &buffers) == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(polyconv_last_error(), "input"));
    CHECK(polyconv_run(plan, &buffers, stream) == POLYCONV_DEVICE_ERROR);
    CHECK(contains(polyconv_last_error(), "input is host memory, expected memory of fake:1"));
    polyconv_weights_destroy(packed);
  }
  polyconv_plan_destroy(plan);
  CHECK(polyconv_stream_destroy(device, stream) == POLYCONV_SUCCESS);
  CHECK(contains(description(device), "live 0"));
}

TEST_CASE("a kernel that must be bound is taken only where binding was promised") {
  const polyconv_device *device = fake_device();
  const std::vector<polyconv_problem> problem{parse(kToken)};
  Arrays arrays(problem);
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = "fake-device/bound";
  polyconv_plan *plan = nullptr;
  CHECK(polyconv_plan_create(device, problem.data(), 1, &options, &plan) == POLYCONV_UNSUPPORTED);
  options.bind = 1;
  REQUIRE(polyconv_plan_create(device, problem.data(), 1, &options, &plan) == POLYCONV_SUCCESS);
  polyconv_plan_info info{};
  info.struct_size = sizeof info;
  CHECK(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
  CHECK(info.needs_bind == 1);
  const DeviceArray input(device, arrays.input), weights(device, arrays.weights[0]), bias(device, arrays.bias[0]);
  const DeviceArray output(device, arrays.output);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = input.pointer;
  buffers.output = output.pointer;
  buffers.weights[0] = weights.pointer;
  buffers.bias[0] = bias.pointer;
  polyconv_bound *bound = nullptr;
  REQUIRE(polyconv_bind(plan, &buffers, &bound) == POLYCONV_SUCCESS);
  CHECK(polyconv_run_bound(bound, nullptr) == POLYCONV_SUCCESS);
  CHECK(output.read() == convolve(problem, "reference/*"));
  polyconv_bound_destroy(bound);
  polyconv_plan_destroy(plan);
  CHECK(convolve(problem, "fake-device/bound", device) == convolve(problem, "reference/*")); // binds by itself
}

TEST_CASE("a backend on request is taken only where it is named") {
  load("on_request");
  const std::vector<polyconv_problem> problem{parse(kToken)};
  CHECK(convolve(problem, "fake-on-request/direct") == convolve(problem, "reference/*"));
  polyconv_plan *plan = nullptr;
  REQUIRE(polyconv_plan_create(nullptr, problem.data(), 1, nullptr, &plan) == POLYCONV_SUCCESS);
  polyconv_plan_info info{};
  info.struct_size = sizeof info;
  CHECK(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS);
  CHECK(!contains(info.kernel, "fake-on-request"));
  polyconv_plan_destroy(plan);
}
