// split.cu - the sum over splits of k, for problems of few tiles.
// SPDX-License-Identifier: Apache-2.0
#include "common/sums/partials.cuh"
#include "product/product.hpp"

namespace polyconv::cuda::gemm {

double partials_us(const polyconv_layer &l, int splits) {
  return splits == 1 ? 0 : 2.8 + static_cast<double>(partials_bytes(l, splits)) / 2.2e6;
}

void add_splits(const polyconv_layer &l, const Product &product, cudaStream_t stream) {
  if (l.sum_type == POLYCONV_F64)
    add_partials<double>(l, product, stream, product.activations);
  else
    add_partials<float>(l, product, stream, product.activations);
}

} // namespace polyconv::cuda::gemm
