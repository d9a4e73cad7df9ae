// handles.hpp - the C API's objects as unique_ptrs, and its failures as sentences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace polyconv::bench {

// A row cannot be measured: the words of its status, and why.
class Unable : public std::runtime_error {
 public:
  Unable(std::string status, const std::string &reason) : std::runtime_error(reason), status_(std::move(status)) {}
  const std::string &status() const { return status_; }

 private:
  std::string status_;
};

// Throws Unable with the library's sentence unless `status` is success.
inline void require(polyconv_status status) {
  if (status != POLYCONV_SUCCESS) throw Unable(polyconv_status_string(status), polyconv_last_error());
}

template <class T, void (*destroy)(T *)>
struct Destroyer {
  void operator()(T *object) const { destroy(object); }
};

using PlanHandle = std::unique_ptr<polyconv_plan, Destroyer<polyconv_plan, polyconv_plan_destroy>>;
using WeightsHandle = std::unique_ptr<polyconv_weights, Destroyer<polyconv_weights, polyconv_weights_destroy>>;
using BoundHandle = std::unique_ptr<polyconv_bound, Destroyer<polyconv_bound, polyconv_bound_destroy>>;
using ExplanationHandle =
    std::unique_ptr<polyconv_explanation, Destroyer<polyconv_explanation, polyconv_explanation_destroy>>;

// A stream, event, graph or piece of memory: given back to the device that made it.
class DeviceObject {
 public:
  using Release = polyconv_status (*)(const polyconv_device *device, void *object);
  DeviceObject() = default;
  DeviceObject(const polyconv_device *device, void *object, Release release)
      : device_(device), object_(object), release_(release) {}
  DeviceObject(DeviceObject &&other) noexcept { *this = std::move(other); }
  DeviceObject &operator=(DeviceObject &&other) noexcept {
    std::swap(device_, other.device_), std::swap(object_, other.object_), std::swap(release_, other.release_);
    return *this;
  }
  ~DeviceObject() {
    if (object_) release_(device_, object_);
  }
  void *get() const { return object_; }

 private:
  const polyconv_device *device_ = nullptr;
  void *object_ = nullptr;
  Release release_ = nullptr;
};

// Each throws Unable where the device has none.
inline DeviceObject make_stream(const polyconv_device *device) {
  void *stream = nullptr;
  require(polyconv_stream_create(device, &stream));
  return {device, stream, polyconv_stream_destroy};
}
inline DeviceObject make_event(const polyconv_device *device) {
  void *event = nullptr;
  require(polyconv_event_create(device, &event));
  return {device, event, polyconv_event_destroy};
}
inline DeviceObject make_memory(const polyconv_device *device, size_t bytes, int32_t memory) {
  void *pointer = nullptr;
  require(polyconv_device_alloc(device, bytes, memory, &pointer));
  if (memory == POLYCONV_MEMORY_PINNED)
    return {device, pointer,
            [](const polyconv_device *on, void *p) { return polyconv_device_free(on, p, POLYCONV_MEMORY_PINNED); }};
  return {device, pointer,
          [](const polyconv_device *on, void *p) { return polyconv_device_free(on, p, POLYCONV_MEMORY_DEVICE); }};
}

// A polyconv struct that the library fills, with its struct_size set.
template <class T>
T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

} // namespace polyconv::bench
