// taps7.cu - filters of 7 x 7 at stride 1, unrolled.
// SPDX-License-Identifier: Apache-2.0
#include "window.cuh"

namespace polyconv::cuda::texture {

POLYCONV_TEXTURE_TAPS(7)

} // namespace polyconv::cuda::texture
