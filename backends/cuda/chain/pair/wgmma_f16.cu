// wgmma_f16.cu - f16 instances of wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "pair/wgmma.cuh"

namespace polyconv::cuda::piped {

Kernel find_f16(int shape) {
  return kernel_of<__half>(shape);
}

} // namespace polyconv::cuda::piped
