// product_f16.cu - the matrix products of f16.
// SPDX-License-Identifier: Apache-2.0
#include "mma/product.cuh"

namespace polyconv::cuda::tensor {

MmaLauncher mma_half(int tile, Source source) {
  using P = ProductsOf<__half>;
  return mma_by_tile<PlainLoop<P>, P>(tile, source);
}

} // namespace polyconv::cuda::tensor
