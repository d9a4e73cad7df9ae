// rows_bf16.cu - the gradient of weights of bf16.
// SPDX-License-Identifier: Apache-2.0
#include "weights/rows.cuh"

namespace polyconv::cuda::shared {

RowsInstance find_rows_bf16(int taps, int stride) {
  return find_rows<__nv_bfloat16>(taps, stride);
}

} // namespace polyconv::cuda::shared
