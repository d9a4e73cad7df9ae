// last_f32.cu - cuda-shared/depthwise_last for f32.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/last.cuh"

namespace polyconv::cuda::shared {

MarchInstance find_march_f32(const MarchShape &shape) {
  return march_by_filter<float>(shape);
}

} // namespace polyconv::cuda::shared
