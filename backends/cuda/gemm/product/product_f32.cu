// product_f32.cu - the matrix products of f32.
// SPDX-License-Identifier: Apache-2.0
#include "product/product.cuh"

namespace polyconv::cuda::gemm {

Launcher product_f32(int tile, Source source) {
  switch (tile) {
    case k128x256x16: return by_source<float, float, Tile128x256x16>(source);
    case k256x128x16: return by_source<float, float, Tile256x128x16>(source);
    case k128x128x16: return by_source<float, float, Tile128x128x16>(source);
    case k128x64x16: return by_source<float, float, Tile128x64x16>(source);
    case k64x64x16: return by_source<float, float, Tile64x64x16>(source);
    case k128x32x16: return by_source<float, float, Tile128x32x16>(source);
    default: return by_source<float, float, Tile32x32x16>(source);
  }
}

} // namespace polyconv::cuda::gemm
