// product_fast.cu - the matrix products of f32 rounded to bf16 on the way from shared memory to the matrix units: twice
// the rate of TF32, and the range of f32, which f16 has not.
// SPDX-License-Identifier: Apache-2.0
#include "mma/split.cuh"

namespace polyconv::cuda::tensor {
namespace {

using FastProducts = ProductsOf<float, kSplitRow<1>>;

struct RoundedLoop {
  template <class Tile, Source Kind>
  __device__ static void multiply(MmaSums<Tile> &sums, const MmaProduct &p, unsigned char *stages,
                                  const Corner &corner) {
    Pipeline<FastProducts, Tile, Kind> pipeline(p, stages, corner);
    const SplitFragments<Tile, 1> operands(static_cast<uint32_t>(__cvta_generic_to_shared(stages)));
#pragma unroll 1
    for (int32_t left = pipeline.blocks(); left > 0; --left) {
      pipeline.fetch(0);
      pipeline.fetch(1);
      operands.multiply(sums, pipeline.now(), false);
      pipeline.turn();
      pipeline.deposit();
    }
    pipeline.finish();
  }
};

} // namespace

MmaLauncher mma_fast(int tile, Source source) {
  return mma_by_tile<RoundedLoop, FastProducts>(tile, source);
}

} // namespace polyconv::cuda::tensor
