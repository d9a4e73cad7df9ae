// strided_bf16.cu - the kernels of strided layers' backward data for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "strided/strided.cuh"

namespace polyconv::cuda::wgmma {

StridedLauncher strided_bf16(int config) {
  return strided_launcher_of<__nv_bfloat16>(config);
}

} // namespace polyconv::cuda::wgmma
