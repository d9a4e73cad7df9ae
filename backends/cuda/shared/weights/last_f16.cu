// last_f16.cu - the gradient of weights of depthwise layers, channels last, f16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/last.cuh"

namespace polyconv::cuda::shared {

LastLauncher last_sums_f16(int columns) {
  return last_launcher<__half>(columns);
}

} // namespace polyconv::cuda::shared
