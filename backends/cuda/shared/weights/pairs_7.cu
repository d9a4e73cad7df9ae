// pairs_7.cu - cuda-shared/pairs_weights for filters of 7x7.
// SPDX-License-Identifier: Apache-2.0
#include "weights/pairs.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_PAIRS(7)

} // namespace polyconv::cuda::shared
