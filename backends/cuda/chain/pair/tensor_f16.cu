// tensor_f16.cu - f16 instances of tensor.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "pair/tensor.cuh"

namespace polyconv::cuda::mobile {

MobileKernel find_pair_f16(int rows, int step, int pairs) {
  return step == 1 ? pair_by_shape<__half, 1>(rows, pairs) : pair_by_shape<__half, 2>(rows, pairs);
}

} // namespace polyconv::cuda::mobile
