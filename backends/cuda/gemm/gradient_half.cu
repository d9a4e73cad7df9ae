// gradient_half.cu - the gradient of weights of f16 and bf16 with f32 products and sums.
// SPDX-License-Identifier: Apache-2.0
#include "gradient.cuh"

namespace polyconv::cuda::gemm {

GradientLauncher gradient_half(int32_t type, Reach reach) {
  return type == POLYCONV_F16 ? by_reach<__half, GradientTile64x64>(reach)
                              : by_reach<__nv_bfloat16, GradientTile64x64>(reach);
}

} // namespace polyconv::cuda::gemm
