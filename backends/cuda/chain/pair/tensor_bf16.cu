// tensor_bf16.cu - bf16 instances of tensor.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "pair/tensor.cuh"

namespace polyconv::cuda::mobile {

MobileKernel find_pair_bf16(int rows, int step, int pairs) {
  return step == 1 ? pair_by_shape<__nv_bfloat16, 1>(rows, pairs) : pair_by_shape<__nv_bfloat16, 2>(rows, pairs);
}

} // namespace polyconv::cuda::mobile
