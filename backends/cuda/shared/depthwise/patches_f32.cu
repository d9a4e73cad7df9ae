// patches_f32.cu - depthwise layers by patches, f32.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/patches.cuh"

namespace polyconv::cuda::shared {

DepthwiseLauncher depthwise_patches_f32() {
  return depthwise_launcher<float>();
}

} // namespace polyconv::cuda::shared
