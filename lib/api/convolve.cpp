// convolve.cpp - all four steps at once, on host pointers: what a device needs of them is copied there and back.
// SPDX-License-Identifier: Apache-2.0
#include "registry/device.hpp"
#include "run/bind.hpp"
#include "run/checks.hpp"
#include "run/weights.hpp"
#include "tune/tune.hpp"

namespace polyconv {
namespace {

// One convolution on host pointers. Everything that it makes is gone with it.
class Convolution {
 public:
  Convolution(const polyconv_plan &plan, const polyconv_buffers &buffers) : plan_(plan) {
    copy_pointers(buffers, &host_);
    host_.workspace = nullptr; // ignored, as buffers.packed is
    if (const polyconv_status status = check_required(plan, host_)) throw Failure(status, last_error());
    check_weights();
    check_buffers(plan, host_, Memory::OfHost);
  }

  ~Convolution() { // after a failure half way: what is under way reads and writes memory that goes now
    if (!done_ && plan_.device->table->stream_synchronize != nullptr)
      plan_.device->table->stream_synchronize(plan_.device->index, nullptr);
  }
  Convolution(const Convolution &) = delete;
  Convolution &operator=(const Convolution &) = delete;

  void run() {
    if (plan_.nothing_to_run) return;
    const polyconv_device &device = *plan_.device;
    done_ = false;
    const BufferList list(plan_, host_, Memory::OfHost);
    here_ = host_;
    if (has_own_memory(device)) copy_in(list);
    if (!plan_.writes_weights) pack();
    workspace_ = DeviceMemory(device, plan_.workspace_bytes, plan_.options.values.allocator);
    here_.workspace = workspace_.get();
    if (plan_.needs_bind) bound_ = std::make_unique<polyconv_bound>(plan_.steps, here_, plan_.observer());
    const polyconv_status status =
        bound_ != nullptr ? bound_->run(nullptr) : run_steps(plan_.steps, here_, plan_.observer(), nullptr);
    if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
    if (has_own_memory(device)) copy_out(list);
    synchronise(device, nullptr);
    done_ = true;
  }

 private:
  void check_weights() const {
    for (size_t layer = 0; layer < plan_.layers.size(); ++layer)
      if (!plan_.nothing_to_run && host_.weights[layer] == nullptr && plan_.layers[layer].weights.bytes > 0)
        throw failure(POLYCONV_INVALID_ARGUMENT, "buffers.weights[%zu] is NULL, expected %s", layer,
                      plan_.writes_weights ? "memory for the gradient" : "raw weights");
  }

  // What is written is copied too where it has gaps, since copy_out brings these back as well.
  void copy_in(const BufferList &list) {
    for (const Buffer &buffer : list) {
      copies_.emplace_back(*plan_.device, buffer.bytes, polyconv_allocator{});
      char *copy = static_cast<char *>(copies_.back().get());
      int64_t dense = static_cast<int64_t>(polyconv_type_size(buffer.tensor.type));
      for (const int64_t size : buffer.tensor.size) dense *= size;
      if (!buffer.written || dense != buffer.bytes)
        copy_memory(*plan_.device, copy, buffer.pointer, buffer.bytes, nullptr);
      slots_of(here_)[buffer.slot] = copy + buffer.shift;
    }
  }

  void copy_out(const BufferList &list) {
    for (const Buffer &buffer : list)
      if (buffer.written)
        copy_memory(*plan_.device, buffer.pointer, slots_of(here_)[buffer.slot], buffer.bytes, nullptr);
  }

  void pack() {
    for (size_t i = 0; i < plan_.layers.size(); ++i) {
      if (plan_.layers[i].weights.raw()) continue;
      packed_.push_back(empty_weights(plan_, static_cast<int32_t>(i), nullptr));
      pack_weights(packed_.back().get(), here_.weights[i], nullptr);
      here_.weights[i] = packed_.back()->for_run();
    }
  }

  const polyconv_plan &plan_;
  polyconv_arguments host_; // the caller's pointers
  polyconv_arguments here_; // where the plan runs
  bool done_ = true;
  std::vector<DeviceMemory> copies_;
  std::vector<std::unique_ptr<polyconv_weights>> packed_;
  DeviceMemory workspace_;
  std::unique_ptr<polyconv_bound> bound_;
};

} // namespace
} // namespace polyconv

extern "C" polyconv_status polyconv_convolve(const polyconv_device *device, const polyconv_problem *problems,
                                             int32_t count, const polyconv_options *options,
                                             const polyconv_buffers *buffers) {
  using namespace polyconv;
  return guarded([&] {
    const polyconv_buffers copied = copy_buffers(buffers);
    const polyconv_device &where = device_or_cpu(device);
    Options read = read_options(options, where);
    read.values.bind = read.policy.bind = 1; // it binds what it runs: kernels that need that are as good as others
    const std::unique_ptr<polyconv_plan> plan = make_plan(where, problems, count, read, tuner());
    Convolution(*plan, copied).run();
  });
}
