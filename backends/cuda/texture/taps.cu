// taps.cu - filters of any size, stride and dilation: a fetch for every tap and output.
// SPDX-License-Identifier: Apache-2.0
#include "window.cuh"

namespace polyconv::cuda::texture {

POLYCONV_TEXTURE_TAPS(0)

} // namespace polyconv::cuda::texture
