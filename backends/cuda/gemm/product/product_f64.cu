// product_f64.cu - the matrix products of f64.
// SPDX-License-Identifier: Apache-2.0
#include "product/product.cuh"

namespace polyconv::cuda::gemm {

Launcher product_f64(int tile, Source source) {
  if (tile == k128x64x16) return by_source<double, double, Tile128x64x16>(source);
  return by_source<double, double, Tile64x64x16>(source);
}

} // namespace polyconv::cuda::gemm
