// tiles_7.cu - cuda-shared/tiles for filters of 7x7 at stride 1.
// SPDX-License-Identifier: Apache-2.0
#include "tiles/tiles.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_TILES(7)

} // namespace polyconv::cuda::shared
