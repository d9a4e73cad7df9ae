// backend.cpp - the cudnn backend: NVIDIA's library for those who have it and ask for it by name, and the yardstick
// that our own kernels are measured with. Device table and probe are those of the CUDA plug-ins.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

#include <cstdio>
#include <cstring>

#include "library.hpp"

namespace polyconv::cuda {
namespace {

// cuDNN brings a CUDA runtime of its own, which the driver must know too.
polyconv_status probe_cudnn(char *reason, size_t size) {
  const polyconv_status status = probe(reason, size);
  if (status != POLYCONV_SUCCESS) return status;
  std::string why;
  const cudnn::Library *const library = cudnn::find_library(&why);
  if (library == nullptr) {
    std::snprintf(reason, size, "%s", why.c_str());
    return POLYCONV_UNAVAILABLE;
  }
  const int driver = driver_version();
  const int needed = static_cast<int>(library->get_cudart_version());
  if (driver / 1000 < needed / 1000) {
    std::snprintf(reason, size, "this cuDNN is for CUDA %d, the driver for %d", needed / 1000, driver / 1000);
    return POLYCONV_UNAVAILABLE;
  }
  const size_t version = library->get_version(), end = std::strlen(reason);
  std::snprintf(reason + end, size - end, ", cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
  return POLYCONV_SUCCESS;
}

sdk::Backend plug_in_on_request() {
  sdk::Backend backend = plug_in();
  backend.probe = probe_cudnn;
  backend.flags = POLYCONV_BACKEND_ON_REQUEST;
  return backend;
}

} // namespace
} // namespace polyconv::cuda

POLYCONV_DEFINE_BACKEND(polyconv::cuda::plug_in_on_request())
