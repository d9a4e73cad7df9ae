// inverted_bf16.cu - bf16 instances of inverted.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "mobile/inverted.cuh"

namespace polyconv::cuda::mobile {

MobileKernel find_inverted_bf16(int rows, int step, int pairs) {
  return step == 1 ? inverted_by_shape<__nv_bfloat16, 1>(rows, pairs)
                   : inverted_by_shape<__nv_bfloat16, 2>(rows, pairs);
}

} // namespace polyconv::cuda::mobile
