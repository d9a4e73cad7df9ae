// check.hpp - CUDA errors as polyconv errors: every call and every launch goes through one of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cuda {

inline polyconv_status status_of(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? POLYCONV_OUT_OF_MEMORY : POLYCONV_DEVICE_ERROR;
}

// Throws where a runtime call failed. `what` says what was tried ("allocating 4096 bytes").
inline void check(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  cudaGetLastError(); // a failed launch must not be found again by the next call
  throw sdk::Error(status_of(error), std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
}

// After a launch: configuration errors show here, execution errors at the next synchronisation. `kernel` is named in
// the sentence.
inline void check_launch(const char *kernel) {
  const cudaError_t error = cudaGetLastError(); // takes the error away: the next call must not find it again
  if (error == cudaSuccess) return;
  throw sdk::Error(status_of(error), std::string("CUDA: launching ") + kernel + ": " + cudaGetErrorString(error));
}

// Lets blocks of a kernel have so many bytes of shared memory. The attribute is the kernel's: the same for all plans.
template <class Kernel>
void allow_shared(Kernel *kernel, int64_t bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "asking for shared memory");
}

// Makes a device current for a scope and gives the caller's own back: run must not change what the caller set.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    check(cudaGetDevice(&before_), "reading the current device");
    changed_ = before_ != device;
    if (changed_) check(cudaSetDevice(device), "selecting the device");
  }
  ~DeviceScope() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope &) = delete;
  DeviceScope &operator=(const DeviceScope &) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

} // namespace polyconv::cuda
