// last_f16.cu - cuda-shared/depthwise_last for f16.
// SPDX-License-Identifier: Apache-2.0
#include "depthwise/last.cuh"

namespace polyconv::cuda::shared {

MarchInstance find_march_f16(const MarchShape &shape) {
  return march_by_filter<__half>(shape);
}

} // namespace polyconv::cuda::shared
