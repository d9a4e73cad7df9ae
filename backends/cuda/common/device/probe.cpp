// probe.cpp - can this plug-in serve this machine? Every program asks that of every plug-in, also those that never
// touch a GPU, so the driver is asked for its version only: waking it takes 100 ms. Whether there is code for a device
// is asked when something is planned on it.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>

#include "common/device/device.hpp"
#include "common/device/facts.hpp"

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

// Whether the kernel module lists a GPU. Where it does not (other systems), the driver has to be woken.
bool lists_gpu() {
  DIR *const folder = opendir("/proc/driver/nvidia/gpus");
  if (folder == nullptr) return false;
  bool found = false;
  while (const dirent *entry = readdir(folder)) found = found || entry->d_name[0] != '.';
  closedir(folder);
  return found;
}

} // namespace

int driver_version() {
  // The runtime's own question wakes the driver. Not closed: the runtime loads it again, and so do the other plug-ins.
  void *const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return 0;
  using Ask = int (*)(int *);
  const auto ask = reinterpret_cast<Ask>(dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

polyconv_status probe(char *reason, size_t size) {
  const int driver = driver_version();
  if (driver == 0) {
    std::snprintf(reason, size, "no NVIDIA driver");
    return POLYCONV_UNAVAILABLE;
  }
  if (driver / 1000 < CUDART_VERSION / 1000) { // within a major version older drivers run newer runtimes
    std::snprintf(reason, size, "the driver is for CUDA %d.%d, older than the runtime %d.%d", driver / 1000,
                  driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return POLYCONV_UNAVAILABLE;
  }
  int devices = 0;
  if (!lists_gpu()) {
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
      cudaGetLastError(); // nobody shall find the error of a probe later
      std::snprintf(reason, size, "no CUDA device: %s",
                    error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error));
      return POLYCONV_UNAVAILABLE;
    }
  }
  std::snprintf(reason, size, "driver for CUDA %d.%d", driver / 1000, driver % 1000 / 10);
  return POLYCONV_SUCCESS;
}

bool has_code(const char *architectures, int device, sdk::Offer &offer) {
  int capability = 0;
  try {
    capability = device_facts(device).capability;
  } catch (const sdk::Error &) {
    return offer.reject("cuda:%d does not answer", device);
  }
  return has_code_for(architectures, capability) ||
         offer.reject("has no code for cuda:%d of compute capability %d.%d, only for %s", device, capability / 10,
                      capability % 10, architectures);
}

} // namespace polyconv::cuda
