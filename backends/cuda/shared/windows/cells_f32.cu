// cells_f32.cu - the gradient of the input of depthwise layers at stride 2, channels last, f32.
// SPDX-License-Identifier: Apache-2.0
#include "windows/cells.cuh"

namespace polyconv::cuda::shared {

CellsLaunch find_cells_f32(int n, int channels) {
  return find_cells<float>(n, channels);
}

} // namespace polyconv::cuda::shared
