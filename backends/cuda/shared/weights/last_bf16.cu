// last_bf16.cu - the gradient of weights of depthwise layers, channels last, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/last.cuh"

namespace polyconv::cuda::shared {

LastLauncher last_sums_bf16(int columns) {
  return last_launcher<__nv_bfloat16>(columns);
}

} // namespace polyconv::cuda::shared
