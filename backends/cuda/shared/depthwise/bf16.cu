// bf16.cu - cuda-shared/depthwise for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/depthwise.cuh"

namespace polyconv::cuda::shared {

DepthwiseInstance find_depthwise_bf16(int n, int step, int columns, int rows) {
  return by_filter<__nv_bfloat16>(n, step, columns, rows);
}

} // namespace polyconv::cuda::shared
