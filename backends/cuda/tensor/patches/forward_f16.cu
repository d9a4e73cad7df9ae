// forward_f16.cu - the forward product by patches, f16.
// SPDX-License-Identifier: Apache-2.0
#include "patches/forward.cuh"

namespace polyconv::cuda::tensor {

ForwardLauncher forward_f16(int eights) {
  return forward_launcher_of<__half>(eights);
}

} // namespace polyconv::cuda::tensor
