// device_memory.hpp - memory that the library holds for a caller: packed weights, and the scratch of convolve and
// tuning. On the CPU it may come from the caller's allocator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.hpp"
#include "registry/device.hpp"
#include "registry/registry.hpp"

#include <vector>

namespace polyconv {

// Sizes are counted in 64 bits everywhere; what this process's addresses cannot hold, as 4 GiB where they have 32 bits,
// is refused here before it becomes a size_t. Throws Failure(OUT_OF_MEMORY).
size_t memory_size(int64_t bytes);

// Memory of one device, aligned to POLYCONV_ALIGNMENT; frees itself. Nothing for 0 bytes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // `kind` is a POLYCONV_MEMORY_*; the allocator serves the CPU only and may be empty. Throws Failure.
  DeviceMemory(const polyconv_device &device, int64_t bytes, const polyconv_allocator &allocator,
               int32_t kind = POLYCONV_MEMORY_DEVICE);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory &&other) noexcept;
  DeviceMemory &operator=(DeviceMemory &&other) noexcept;

  void *get() const { return pointer_; }

 private:
  const polyconv_device *device_ = nullptr;
  void *pointer_ = nullptr;
  polyconv_allocator allocator_ = {};
  int32_t kind_ = POLYCONV_MEMORY_DEVICE;
};

// Whether the device has memory of its own, which the host cannot touch.
inline bool has_own_memory(const polyconv_device &device) {
  return device.kind != "cpu";
}

// Calls of the device table that throw Failure. An absent synchronise means that nothing is asynchronous.
void copy_memory(const polyconv_device &device, void *to, const void *from, int64_t bytes, void *stream);
void fill_memory(const polyconv_device &device, void *to, int32_t byte, int64_t bytes, void *stream);
void synchronise(const polyconv_device &device, void *stream);

// Whether the kernel reads packed weights of this device from a copy on the host.
inline bool wants_host_copy(const polyconv_device &device, const polyconv_kernel &kernel) {
  return has_own_memory(device) && (kernel.flags & POLYCONV_KERNEL_HOST_WEIGHTS) != 0;
}

// That copy, complete on return. Throws Failure.
std::vector<char> copy_to_host(const polyconv_device &device, const void *from, int64_t bytes, void *stream);

} // namespace polyconv
