// weights_f16.cu - the kernels of the gradient of weights for f16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/product.cuh"

namespace polyconv::cuda::wgmma {

WeightsLauncher weights_f16(int shape) {
  return weights_launcher_of<__half>(shape);
}

} // namespace polyconv::cuda::wgmma
