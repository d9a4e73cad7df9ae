// product_f16.cu - the Hopper product's kernels for f16.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma/shared.cuh"

namespace polyconv::cuda::wgmma {

Launcher product_f16(int shape) {
  return launcher_of<__half>(shape);
}

} // namespace polyconv::cuda::wgmma
