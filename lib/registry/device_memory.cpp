// device_memory.cpp - allocation and copies through the device table.
// SPDX-License-Identifier: Apache-2.0
#include "registry/device_memory.hpp"

#include "registry/device.hpp"
#include "registry/host.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace polyconv {
namespace {

// Calls one function of the device table; a failure throws its sentence.
template <class Function, class... Arguments>
void call(const polyconv_device &device, const char *name, Function function, Arguments... arguments) {
  if (function == nullptr) throw failure(POLYCONV_UNSUPPORTED, "device %s has no %s", device.name.c_str(), name);
  const polyconv_status status =
      ask_backend(device.name.c_str(), name, [&] { return function(device.index, arguments...); });
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
}

} // namespace

size_t memory_size(int64_t bytes) {
  if (static_cast<uint64_t>(bytes) > static_cast<uint64_t>(PTRDIFF_MAX))
    throw failure(POLYCONV_OUT_OF_MEMORY, "%lld bytes are needed, of which this process can address at most %td",
                  static_cast<long long>(bytes), static_cast<ptrdiff_t>(PTRDIFF_MAX));
  return static_cast<size_t>(bytes);
}

DeviceMemory::DeviceMemory(const polyconv_device &device, int64_t bytes, const polyconv_allocator &allocator,
                           int32_t kind)
    : device_(&device), kind_(kind) {
  if (bytes <= 0) return;
  const size_t size = memory_size(bytes);
  if (allocator.allocate == nullptr || has_own_memory(device)) {
    call(device, "alloc", device.table->alloc, size, kind, &pointer_);
    return;
  }
  pointer_ = allocator.allocate(allocator.context, size, POLYCONV_ALIGNMENT);
  if (pointer_ == nullptr) throw failure(POLYCONV_OUT_OF_MEMORY, "options.allocator returned NULL for %zu bytes", size);
  allocator_ = allocator;
}

DeviceMemory::~DeviceMemory() {
  if (pointer_ == nullptr) return;
  if (allocator_.release != nullptr) {
    allocator_.release(allocator_.context, pointer_);
  } else {
    tell_backend(device_->name.c_str(), "free", [&] { device_->table->free(device_->index, pointer_, kind_); });
  }
}

DeviceMemory::DeviceMemory(DeviceMemory &&other) noexcept
    : device_(other.device_),
      pointer_(std::exchange(other.pointer_, nullptr)),
      allocator_(other.allocator_),
      kind_(other.kind_) {}

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pointer_, other.pointer_);
  std::swap(allocator_, other.allocator_);
  std::swap(kind_, other.kind_);
  return *this;
}

void copy_memory(const polyconv_device &device, void *to, const void *from, int64_t bytes, void *stream) {
  if (bytes == 0) return;
  if (bytes > 0) call(device, "copy", device.table->copy, to, from, memory_size(bytes), stream);
}

void fill_memory(const polyconv_device &device, void *to, int32_t byte, int64_t bytes, void *stream) {
  if (bytes > 0) call(device, "fill", device.table->fill, to, byte, memory_size(bytes), stream);
}

void synchronise(const polyconv_device &device, void *stream) {
  if (device.table->stream_synchronize != nullptr)
    call(device, "stream_synchronize", device.table->stream_synchronize, stream);
}

std::vector<char> copy_to_host(const polyconv_device &device, const void *from, int64_t bytes, void *stream) {
  std::vector<char> copy(memory_size(bytes));
  copy_memory(device, copy.data(), from, bytes, stream);
  synchronise(device, stream);
  return copy;
}

} // namespace polyconv
