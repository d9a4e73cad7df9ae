// product_bf16.cu - the Hopper product's kernels for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma/shared.cuh"

namespace polyconv::cuda::wgmma {

Launcher product_bf16(int shape) {
  return launcher_of<__nv_bfloat16>(shape);
}

} // namespace polyconv::cuda::wgmma
