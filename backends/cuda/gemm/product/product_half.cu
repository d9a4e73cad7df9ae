// product_half.cu - the matrix products of f16 and bf16 activations with f32 products and sums.
// SPDX-License-Identifier: Apache-2.0
#include "product/product.cuh"

namespace polyconv::cuda::gemm {
namespace {

template <class From>
Launcher by_tile(int tile, Source source) {
  if (tile == k128x256x16) return by_source<From, float, Tile128x256x16>(source);
  if (tile == k128x128x16) return by_source<From, float, Tile128x128x16>(source);
  return by_source<From, float, Tile64x64x16>(source);
}

} // namespace

Launcher product_half(int32_t type, int tile, Source source) {
  return type == POLYCONV_F16 ? by_tile<__half>(tile, source) : by_tile<__nv_bfloat16>(tile, source);
}

} // namespace polyconv::cuda::gemm
