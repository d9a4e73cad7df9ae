// taps5.cu - filters of 5 x 5 at stride 1, unrolled.
// SPDX-License-Identifier: Apache-2.0
#include "window.cuh"

namespace polyconv::cuda::texture {

POLYCONV_TEXTURE_TAPS(5)

} // namespace polyconv::cuda::texture
