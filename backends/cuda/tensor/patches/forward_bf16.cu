// forward_bf16.cu - the forward product by patches, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "patches/forward.cuh"

namespace polyconv::cuda::tensor {

ForwardLauncher forward_bf16(int eights) {
  return forward_launcher_of<__nv_bfloat16>(eights);
}

} // namespace polyconv::cuda::tensor
