// product.cuh - the tiled matrix product by mma.sync: the operands of the next half of a block of k are loaded
// while those of this one are multiplied. Included by one file a kind of products, which makes the kernels of its
// tiles.
//
// Floor: 2 N K P Q C R S at the rate of mma.sync; on chips of 9.0 that is about 60 % of what wgmma reaches, on others
// up to 12.0 it is all that there is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mma/launch.cuh"

namespace polyconv::cuda::tensor {

template <class P>
struct PlainLoop {
  template <class Tile, Source Kind>
  __device__ static void multiply(MmaSums<Tile> &sums, const MmaProduct &p, unsigned char *stages,
                                  const Corner &corner) {
    Pipeline<P, Tile, Kind> pipeline(p, stages, corner);
    Fragments<typename P::Type, Tile> operands[2];
    const typename Fragments<typename P::Type, Tile>::At at(static_cast<uint32_t>(__cvta_generic_to_shared(stages)));
    operands[0].load(at, 0, 0);
#pragma unroll 1
    for (int32_t left = pipeline.blocks(); left > 0; --left) {
      operands[1].load(at, pipeline.now(), 1);
      pipeline.fetch(0);
      operands[0].multiply(sums);
      pipeline.fetch(1);
      pipeline.turn();
      operands[0].load(at, pipeline.now(), 0); // after the last block: not used
      operands[1].multiply(sums);
      pipeline.deposit();
    }
    pipeline.finish();
  }
};

template <class T>
MmaLauncher mma_product(int tile, Source source) {
  using P = ProductsOf<T>;
  return mma_by_tile<PlainLoop<P>, P>(tile, source);
}

} // namespace polyconv::cuda::tensor

#define POLYCONV_INSTANCE(T) template tensor::MmaLauncher tensor::mma_product<T>(int, Source);
