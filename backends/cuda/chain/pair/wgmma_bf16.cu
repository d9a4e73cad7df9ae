// wgmma_bf16.cu - bf16 instances of wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "pair/wgmma.cuh"

namespace polyconv::cuda::piped {

Kernel find_bf16(int shape) {
  return kernel_of<__nv_bfloat16>(shape);
}

} // namespace polyconv::cuda::piped
