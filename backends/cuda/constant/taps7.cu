// taps7.cu - 7 x 7 and 7 x any at stride 1.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(7)

} // namespace polyconv::cuda::constant
