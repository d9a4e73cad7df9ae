// patches_bf16.cu - depthwise layers by patches, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/patches.cuh"

namespace polyconv::cuda::shared {

DepthwiseLauncher depthwise_patches_bf16() {
  return depthwise_launcher<__nv_bfloat16>();
}

} // namespace polyconv::cuda::shared
