// tiles_any.cu - cuda-shared/tiles for filters of any size, stride and dilation.
// SPDX-License-Identifier: Apache-2.0
#include "tiles/tiles.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_TILES(0)

} // namespace polyconv::cuda::shared
