// taps.cu - filters of any size, stride and dilation: loops over taps, weights from the constant bank all the same.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

namespace polyconv::cuda::constant {

POLYCONV_CONSTANT_TAPS(0)

} // namespace polyconv::cuda::constant
