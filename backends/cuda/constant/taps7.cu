// taps7.cu - filters of 7 x 7 at stride 1, unrolled.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(7)

} // namespace polyconv::cuda::constant
