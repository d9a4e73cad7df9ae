// product_tf32.cu - the Hopper product's kernels for f32 rounded to TF32.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma/shared.cuh"

namespace polyconv::cuda::wgmma {

Launcher product_tf32(int shape) {
  return launcher_of<float>(shape);
}

} // namespace polyconv::cuda::wgmma
