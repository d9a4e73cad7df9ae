// pairs_3.cu - cuda-shared/pairs_weights for filters of 3x3.
// SPDX-License-Identifier: Apache-2.0
#include "weights/pairs.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_PAIRS(3)

} // namespace polyconv::cuda::shared
