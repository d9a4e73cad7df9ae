// taps3.cu - 3 x 3 and 3 x any at stride 1.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(3)

} // namespace polyconv::cuda::constant
