// mma_fast.cu - the matrix products of f32 rounded to bf16 on the way into shared memory: half the bytes there, twice
// the rate of TF32, and the range of f32, which f16 has not.
// SPDX-License-Identifier: Apache-2.0
#include "mma_product.cuh"

namespace polyconv::cuda::tensor {

MmaLauncher mma_fast(int tile, Source source) {
  using P = ProductsOf<float, __nv_bfloat16>;
  return mma_by_spare_tile<PlainLoop<P>, P>(tile, source);
}

} // namespace polyconv::cuda::tensor
