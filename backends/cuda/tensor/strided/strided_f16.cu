// strided_f16.cu - the kernels of strided layers' backward data for f16.
// SPDX-License-Identifier: Apache-2.0
#include "strided/strided.cuh"

namespace polyconv::cuda::wgmma {

StridedLauncher strided_f16(int config) {
  return strided_launcher_of<__half>(config);
}

} // namespace polyconv::cuda::wgmma
