// taps3.cu - filters of 3 x 3 at stride 1, unrolled.
// SPDX-License-Identifier: Apache-2.0
#include "window.cuh"

namespace polyconv::cuda::texture {

POLYCONV_TEXTURE_TAPS(3)

} // namespace polyconv::cuda::texture
