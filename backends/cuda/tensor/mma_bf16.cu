// mma_bbf16.cu - the matrix products of f16.
// SPDX-License-Identifier: Apache-2.0
#include "mma_product.cuh"

namespace polyconv::cuda::tensor {

MmaLauncher mma_bf16(int tile, Source source) {
  return mma_by_tile<__nv_bfloat16, __nv_bfloat16>(tile, source);
}

} // namespace polyconv::cuda::tensor
