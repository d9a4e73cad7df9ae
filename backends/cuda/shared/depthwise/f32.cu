// f32.cu - cuda-shared/depthwise for f32.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/depthwise.cuh"

namespace polyconv::cuda::shared {

DepthwiseInstance find_depthwise_f32(int n, int step, int columns, int rows) {
  return by_filter<float>(n, step, columns, rows);
}

} // namespace polyconv::cuda::shared
