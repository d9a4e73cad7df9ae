// patch_f16.cu - the gradient of weights by patches, f16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/patch_sum.cuh"

namespace polyconv::cuda::tensor {

PatchLauncher patch_f16(int channel_blocks) {
  return patch_launcher_of<__half>(channel_blocks);
}

} // namespace polyconv::cuda::tensor
