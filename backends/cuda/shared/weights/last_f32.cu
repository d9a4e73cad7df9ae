// last_f32.cu - the gradient of weights of depthwise layers, channels last, f32.
// SPDX-License-Identifier: Apache-2.0
#include "weights/last.cuh"

namespace polyconv::cuda::shared {

LastLauncher last_sums_f32(int columns) {
  return last_launcher<float>(columns);
}

} // namespace polyconv::cuda::shared
