// pairs_4.cu - cuda-shared/pairs_weights for filters of 4x4.
// SPDX-License-Identifier: Apache-2.0
#include "weights/pairs.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_PAIRS(4)

} // namespace polyconv::cuda::shared
