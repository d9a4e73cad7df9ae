// weights_f16.cu - the gradient of weights of small groups, f16.
// SPDX-License-Identifier: Apache-2.0
#include "grouped/weights.cuh"

namespace polyconv::cuda::tensor {

GroupedLauncher grouped_weights_f16(int shape) {
  return grouped_launcher_of<__half>(shape);
}

} // namespace polyconv::cuda::tensor
