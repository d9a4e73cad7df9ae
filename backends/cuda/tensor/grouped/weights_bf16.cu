// weights_bf16.cu - the gradient of weights of small groups, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "grouped/weights.cuh"

namespace polyconv::cuda::tensor {

GroupedLauncher grouped_weights_bf16(int shape) {
  return grouped_launcher_of<__nv_bfloat16>(shape);
}

} // namespace polyconv::cuda::tensor
