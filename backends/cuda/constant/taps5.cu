// taps5.cu - 5 x 5 and 5 x any at stride 1.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(5)

} // namespace polyconv::cuda::constant
