// product_bf16.cu - the matrix products of bf16.
// SPDX-License-Identifier: Apache-2.0
#include "mma/product.cuh"

namespace polyconv::cuda::tensor {

MmaLauncher mma_bfloat(int tile, Source source) {
  using P = ProductsOf<__nv_bfloat16>;
  return mma_by_tile<PlainLoop<P>, P>(tile, source);
}

} // namespace polyconv::cuda::tensor
