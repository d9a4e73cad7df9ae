// tiles_5.cu - cuda-shared/tiles for filters of 5x5 at stride 1.
// SPDX-License-Identifier: Apache-2.0
#include "tiles/tiles.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_TILES(5)

} // namespace polyconv::cuda::shared
