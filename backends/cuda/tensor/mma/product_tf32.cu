// product_tf32.cu - the matrix products of f32 rounded to TF32.
// SPDX-License-Identifier: Apache-2.0
#include "mma/product.cuh"

namespace polyconv::cuda::tensor {

MmaLauncher mma_tf32(int tile, Source source) {
  using P = ProductsOf<float>;
  return mma_by_tile<PlainLoop<P>, P>(tile, source);
}

} // namespace polyconv::cuda::tensor
