// backend.hpp - the whole backend.cpp of a CUDA plug-in: its kernels.inc, the common device table and probe. CMake
// stamps POLYCONV_BACKEND_NAME, POLYCONV_BACKEND_VERSION and POLYCONV_CUDA_ARCHITECTURES.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/backend.hpp>

#include "common/device/device.hpp"

namespace polyconv::cuda {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#include "kernels.inc"
#undef POLYCONV_KERNEL

inline sdk::Backend plug_in() {
  return {POLYCONV_BACKEND_NAME,
          POLYCONV_BACKEND_VERSION,
          "cuda",
          {
#define POLYCONV_KERNEL(name) &kernel_##name,
#include "kernels.inc"
#undef POLYCONV_KERNEL
          },
          probe,
          device_table(),
          0,
          [](const polyconv_request &request, sdk::Offer &offer) {
            return has_code(POLYCONV_CUDA_ARCHITECTURES, request.policy->device_index, offer);
          }};
}

} // namespace polyconv::cuda

#define POLYCONV_DEFINE_CUDA_BACKEND() POLYCONV_DEFINE_BACKEND(polyconv::cuda::plug_in())
