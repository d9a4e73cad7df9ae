// outer_bf16.cu - gradients of weights over few rows, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "vector/outer.cuh"

namespace polyconv::cuda::tensor {

OuterLauncher outer_bf16(const OuterShape &shape) {
  return outer_launcher<__nv_bfloat16>(shape);
}

} // namespace polyconv::cuda::tensor
