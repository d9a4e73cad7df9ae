// weights_bf16.cu - the kernels of the gradient of weights for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/product.cuh"

namespace polyconv::cuda::wgmma {

WeightsLauncher weights_bf16(int shape) {
  return weights_launcher_of<__nv_bfloat16>(shape);
}

} // namespace polyconv::cuda::wgmma
