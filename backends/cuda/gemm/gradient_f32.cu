// gradient_f32.cu - the gradient of weights of f32.
// SPDX-License-Identifier: Apache-2.0
#include "gradient.cuh"

namespace polyconv::cuda::gemm {

GradientLauncher gradient_f32(int tile, Reach reach) {
  if (tile == kGradient128x128) return by_reach<float, GradientTile128x128>(reach);
  if (tile == kGradient128x64) return by_reach<float, GradientTile128x64>(reach);
  return by_reach<float, GradientTile64x64>(reach);
}

} // namespace polyconv::cuda::gemm
