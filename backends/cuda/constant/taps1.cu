// taps1.cu - single taps: 1 x 1, and dilations that scatter the taps.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(1)

} // namespace polyconv::cuda::constant
