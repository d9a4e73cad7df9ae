// half.cu - the gradient of weights of f16 and bf16 with f32 products and sums.
// SPDX-License-Identifier: Apache-2.0
#include "gradient/gradient.cuh"

namespace polyconv::cuda::gemm {
namespace {

template <class From>
GradientLauncher by_reach(Reach reach) {
  return reach == Reach::kPixels ? gradient_launcher<From, GradientTile64x64, Reach::kPixels>()
                                 : gradient_launcher<From, GradientTile64x64, Reach::kColumns>();
}

} // namespace

GradientLauncher gradient_half(int32_t type, Reach reach) {
  return type == POLYCONV_F16 ? by_reach<__half>(reach) : by_reach<__nv_bfloat16>(reach);
}

} // namespace polyconv::cuda::gemm
