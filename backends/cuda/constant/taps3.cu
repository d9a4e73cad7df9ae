// taps3.cu - filters of 3 x 3 at stride 1, unrolled.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(3)

} // namespace polyconv::cuda::constant
