// patches_f16.cu - depthwise layers by patches, f16.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/patches.cuh"

namespace polyconv::cuda::shared {

DepthwiseLauncher depthwise_patches_f16() {
  return depthwise_launcher<__half>();
}

} // namespace polyconv::cuda::shared
