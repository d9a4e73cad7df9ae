// outer_f16.cu - gradients of weights over few rows, f16.
// SPDX-License-Identifier: Apache-2.0
#include "vector/outer.cuh"

namespace polyconv::cuda::tensor {

OuterLauncher outer_f16(const OuterShape &shape) {
  return outer_launcher<__half>(shape);
}

} // namespace polyconv::cuda::tensor
