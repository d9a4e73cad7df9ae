// taps4.cu - up to four taps a pass: strides, and the sizes that have no file of their own.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(4)

} // namespace polyconv::cuda::constant
