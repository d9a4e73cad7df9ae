// last_bf16.cu - cuda-shared/depthwise_last for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/last.cuh"

namespace polyconv::cuda::shared {

MarchInstance find_march_bf16(const MarchShape &shape) {
  return march_by_filter<__nv_bfloat16>(shape);
}

} // namespace polyconv::cuda::shared
