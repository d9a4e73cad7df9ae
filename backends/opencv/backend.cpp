// backend.cpp - the opencv backend: filter2D for those who ask for it by name, and the yardstick of image filters.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <opencv2/core/version.hpp>
#include <polyconv/sdk/backend.hpp>

namespace polyconv::opencv {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#include "kernels.inc"
#undef POLYCONV_KERNEL

namespace {

polyconv_status probe(char *reason, size_t size) {
  std::snprintf(reason, size, "filter2D, one thread");
  return POLYCONV_SUCCESS;
}

sdk::Backend plug_in() {
  return {"opencv",
          CV_VERSION,
          "cpu",
          {
#define POLYCONV_KERNEL(name) &kernel_##name,
#include "kernels.inc"
#undef POLYCONV_KERNEL
          },
          probe,
          nullptr,
          POLYCONV_BACKEND_ON_REQUEST};
}

} // namespace
} // namespace polyconv::opencv

POLYCONV_DEFINE_BACKEND(polyconv::opencv::plug_in())
