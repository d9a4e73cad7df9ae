// rows_f16.cu - the gradient of weights of f16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/rows.cuh"

namespace polyconv::cuda::shared {

RowsInstance find_rows_f16(int taps, int stride) {
  return find_rows<__half>(taps, stride);
}

} // namespace polyconv::cuda::shared
