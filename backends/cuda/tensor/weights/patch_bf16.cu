// patch_bf16.cu - the gradient of weights by patches, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/patch_sum.cuh"

namespace polyconv::cuda::tensor {

PatchLauncher patch_bf16(int channel_blocks) {
  return patch_launcher_of<__nv_bfloat16>(channel_blocks);
}

} // namespace polyconv::cuda::tensor
