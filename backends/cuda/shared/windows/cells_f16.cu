// cells_f16.cu - the gradient of the input of depthwise layers at stride 2, channels last, f16.
// SPDX-License-Identifier: Apache-2.0
#include "windows/cells.cuh"

namespace polyconv::cuda::shared {

CellsLaunch find_cells_f16(int n, int channels) {
  return find_cells<__half>(n, channels);
}

} // namespace polyconv::cuda::shared
