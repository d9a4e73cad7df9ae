// rows_f32.cu - the gradient of weights of f32.
// SPDX-License-Identifier: Apache-2.0
#include "weights/rows.cuh"

namespace polyconv::cuda::shared {

RowsInstance find_rows_f32(int taps, int stride) {
  return find_rows<float>(taps, stride);
}

} // namespace polyconv::cuda::shared
