// step_run.cpp - see step_run.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "step_run.hpp"

#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <cmath>

#include "polyconv/sdk/epilogue.hpp"
#include "polyconv/sdk/tensor.hpp"

namespace conformance {

using namespace polyconv::sdk;

polyconv_tensor tensor(int32_t type, const int64_t (&size)[5], bool channels_last, int64_t gap) {
  polyconv_tensor t = {};
  t.type = type;
  int64_t stride = gap; // 1 is dense
  const int first[] = {4, 3, 2, 1, 0}, last[] = {1, 4, 3, 2, 0};
  for (int i = 0; i < 5; ++i) {
    const int axis = channels_last ? last[i] : first[i];
    t.size[axis] = size[axis];
    t.stride[axis] = stride;
    stride = stride * size[axis] + (gap > 1 ? 3 : 0);
  }
  return t;
}

size_t bytes_of(const polyconv_tensor &t) {
  int64_t last = 0;
  for (int axis = 0; axis < 5; ++axis) last += (t.size[axis] - 1) * t.stride[axis];
  return static_cast<size_t>(last + 1) * polyconv_type_size(t.type);
}

std::vector<unsigned char> numbers(const polyconv_tensor &t, bool with_nan) {
  std::vector<unsigned char> memory(bytes_of(t), kPoison);
  uint32_t state = 12345;
  for_places(t, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
    state = state * 1664525u + 1013904223u;
    double v = static_cast<double>(static_cast<int>(state >> 28)) - 5;
    if (with_nan && n == 0 && c == 1 && h == 2 && w == 3) v = std::nan("");
    store_as(memory.data(), t.type, at(t, n, c, d, h, w), v);
  });
  return memory;
}

namespace {

// Host bytes as they lie in the memory of a kernel's device: up when made, back when fetched.
class OnDevice {
 public:
  OnDevice(const polyconv_device *device, const std::vector<unsigned char> &bytes) : device_(device) {
    REQUIRE(polyconv_device_alloc(device, bytes.size(), POLYCONV_MEMORY_DEVICE, &pointer_) == POLYCONV_SUCCESS);
    move(pointer_, bytes.data(), bytes.size());
  }
  ~OnDevice() { polyconv_device_free(device_, pointer_, POLYCONV_MEMORY_DEVICE); }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;

  void *pointer() const { return pointer_; }
  void fetch(std::vector<unsigned char> &bytes) const { move(bytes.data(), pointer_, bytes.size()); }

 private:
  void move(void *to, const void *from, size_t bytes) const {
    REQUIRE(polyconv_device_copy(device_, to, from, bytes, nullptr) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_stream_synchronize(device_, nullptr) == POLYCONV_SUCCESS);
  }

  const polyconv_device *device_;
  void *pointer_ = nullptr;
};

// A step as the library asks for it; what is offered is filled by `supports`.
struct Asked {
  polyconv_policy policy = {};
  const polyconv_layer *layers[1];
  polyconv_request request;
  polyconv_offer offer = {};

  Asked(int32_t op, const polyconv_layer &layer) : layers{&layer}, request{sizeof request, op, 1, layers, &policy} {
    policy.struct_size = sizeof policy;
    policy.threads = 2;
    policy.workspace_limit = INT64_MAX;
    policy.determinism = POLYCONV_DETERMINISM_RUN;
    offer.struct_size = sizeof offer;
  }
  Asked(const Asked &) = delete;
  Asked &operator=(const Asked &) = delete;

  bool taken_by(const Kernel &kernel) {
    constexpr size_t kSize = offsetof(polyconv_kernel, takes) + sizeof kernel.table->takes;
    const uint64_t takes = kernel.table->struct_size < kSize ? 0 : kernel.table->takes;
    if ((layers[0]->traits & ~takes) != 0) return false; // as the library has it
    return kernel.table->supports(kernel.table, &request, kernel.config, &offer) == POLYCONV_SUCCESS;
  }
};

} // namespace

bool takes_step(const Kernel &kernel, int32_t op, const polyconv_layer &layer) {
  return Asked(op, layer).taken_by(kernel);
}

void run_step(const Kernel &kernel, int32_t op, const polyconv_layer &layer, const std::vector<unsigned char> &input,
              std::vector<unsigned char> &output, std::vector<unsigned char> *saved) {
  Besides besides;
  if (saved) besides.saved = *saved;
  run_step(kernel, op, layer, input, output, besides);
  if (saved) *saved = besides.saved;
}

void run_step(const Kernel &kernel, int32_t op, const polyconv_layer &layer, const std::vector<unsigned char> &input,
              std::vector<unsigned char> &output, Besides &besides) {
  Asked step(op, layer);
  REQUIRE(step.taken_by(kernel));
  void *instance = nullptr;
  REQUIRE(kernel.table->create(kernel.table, &step.request, kernel.config, &instance) == POLYCONV_SUCCESS);
  const std::vector<unsigned char> scratch(static_cast<size_t>(step.offer.workspace_bytes), 0xff);
  const OnDevice read(kernel.device, input), written(kernel.device, output), workspace(kernel.device, scratch);
  const OnDevice kept(kernel.device, besides.saved), slope(kernel.device, besides.slope);
  const OnDevice scale(kernel.device, besides.scale), bias(kernel.device, besides.bias);
  const OnDevice residual(kernel.device, besides.residual_gradient);
  polyconv_arguments arguments = {};
  arguments.struct_size = sizeof arguments;
  arguments.input = read.pointer();
  arguments.output = written.pointer();
  arguments.saved[0] = kept.pointer();
  arguments.slope[0] = slope.pointer();
  arguments.scale[0] = scale.pointer();
  arguments.bias[0] = bias.pointer();
  arguments.residual_gradient[0] = residual.pointer();
  arguments.workspace = workspace.pointer();
  CHECK(kernel.table->run(kernel.table, instance, &arguments, nullptr) == POLYCONV_SUCCESS);
  written.fetch(output);
  kept.fetch(besides.saved);
  bias.fetch(besides.bias);
  residual.fetch(besides.residual_gradient);
  kernel.table->destroy(kernel.table, instance);
}

polyconv_layer step_layer(const polyconv_tensor &input, const polyconv_tensor &result, int32_t sum_type) {
  polyconv_layer l = {};
  l.struct_size = sizeof l;
  l.groups = 1;
  l.sum_type = sum_type;
  l.input = l.output = input;
  l.result = result;
  l.epilogue.residual_scale = l.epilogue.out_scale = 1;
  for (int axis = 0; axis < 3; ++axis) l.stride[axis] = l.dilation[axis] = l.pool_dilation[axis] = 1;
  return l;
}

polyconv_pool sample_pool(int32_t kind, int32_t count_include_pad) {
  return {kind, count_include_pad, {2, 3, 2}, {1, 2, 3}, {0, 1, 1}, {1, 2, 0}};
}

} // namespace conformance
