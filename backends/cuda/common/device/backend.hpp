// backend.hpp - the whole backend.cpp of a CUDA plug-in: its kernels.inc, the common device table and probe. A line
// POLYCONV_ADJOINT(wgmma) there is the kernel wgmma_data: backward data as wgmma over the output's gradient. CMake
// stamps POLYCONV_BACKEND_NAME, POLYCONV_BACKEND_VERSION and POLYCONV_CUDA_ARCHITECTURES.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/backend.hpp>

#include "common/device/device.hpp"
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#define POLYCONV_ADJOINT(name)
#include "kernels.inc"
#undef POLYCONV_KERNEL
#undef POLYCONV_ADJOINT
#define POLYCONV_KERNEL(name)
#define POLYCONV_ADJOINT(name) const sdk::Kernel kernel_##name##_data = adjoint_of<kernel_##name>(#name "_data");
#include "kernels.inc"
#undef POLYCONV_KERNEL
#undef POLYCONV_ADJOINT

inline sdk::Backend plug_in() {
  return {POLYCONV_BACKEND_NAME,
          POLYCONV_BACKEND_VERSION,
          "cuda",
          {
#define POLYCONV_KERNEL(name) &kernel_##name,
#define POLYCONV_ADJOINT(name) &kernel_##name##_data,
#include "kernels.inc"
#undef POLYCONV_KERNEL
#undef POLYCONV_ADJOINT
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
