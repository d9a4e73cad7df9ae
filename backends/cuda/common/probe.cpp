// probe.cpp - can this plug-in serve this machine? Asked before anything else, so no context is created here.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstdio>

#include "common/device.hpp"

namespace polyconv::cuda {
namespace {

// Machine code runs on its own generation from its own minor on; that of an "a" architecture on exactly its own chip.
bool has_code_for(const char *architectures, int capability) {
  for (const char *p = architectures; *p != 0;) {
    int arch = 0;
    while (*p >= '0' && *p <= '9') arch = arch * 10 + (*p++ - '0');
    const bool exact = *p == 'a', family = *p == 'f';
    if (exact || family) ++p;
    const bool ptx = *p == '+' && !exact && !family;
    if (arch == capability) return true;
    if (!exact && arch < capability && (ptx || arch / 10 == capability / 10)) return true;
    while (*p != 0 && *p++ != ' ') continue;
  }
  return false;
}

polyconv_status unavailable() {
  cudaGetLastError(); // nobody shall find the error of a probe later
  return POLYCONV_UNAVAILABLE;
}

} // namespace

polyconv_status probe(const char *architectures, char *reason, size_t size) {
  int driver = 0, runtime = 0, devices = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    std::snprintf(reason, size, "no NVIDIA driver");
    return unavailable();
  }
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) return unavailable();
  if (driver / 1000 < runtime / 1000) { // within a major version older drivers run newer runtimes
    std::snprintf(reason, size, "the driver is for CUDA %d.%d, older than the runtime %d.%d", driver / 1000,
                  driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return unavailable();
  }
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::snprintf(reason, size, "no CUDA device: %s",
                  error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error));
    return unavailable();
  }
  // Kernels run on any of the devices that the caller may name, so there must be code for all.
  for (int device = 0; device < devices; ++device) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (!has_code_for(architectures, major * 10 + minor)) {
      std::snprintf(reason, size, "no code for cuda:%d of compute capability %d.%d, only for %s", device, major, minor,
                    architectures);
      return unavailable();
    }
    if (device == 0)
      std::snprintf(reason, size, "compute capability %d.%d, driver for CUDA %d.%d", major, minor, driver / 1000,
                    driver % 1000 / 10);
  }
  return POLYCONV_SUCCESS;
}

} // namespace polyconv::cuda
