// pairs_5.cu - cuda-shared/pairs_weights for filters of 5x5.
// SPDX-License-Identifier: Apache-2.0
#include "weights/pairs.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_PAIRS(5)

} // namespace polyconv::cuda::shared
