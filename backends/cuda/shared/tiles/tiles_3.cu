// tiles_3.cu - cuda-shared/tiles for filters of 3x3 at stride 1.
// SPDX-License-Identifier: Apache-2.0
#include "tiles/tiles.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_TILES(3)

} // namespace polyconv::cuda::shared
