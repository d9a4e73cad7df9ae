// product_emulated.cu - f32 products on the matrix units: each factor is the sum of three bf16, x1 + x2 + x3, taken one
// after the other (bf16_parts.cuh), which is exact but for the last of 24 bits. Of the nine products the six of at
// least 2^-16 of the first are summed, smallest first: x2 w2, x1 w3, x3 w1, x1 w2, x2 w1, x1 w1. What is left out is
// below 2^-24 of the whole.
//
// The matrix units cut off what they add below the last bit of the largest term, always towards zero. Their sums
// of k are therefore added to f32 sums in registers after every four blocks (64 products), rounded to nearest.
//
// An infinite factor has NaN in its second part. Sums that are not finite are taken from a second pass over k that
// multiplies first parts alone: Inf and NaN are in those, and so is what a sum of them is. Only tiles with such sums
// make that pass.
//
// Six products of bf16 take the time of three of TF32, whose two parts hold 22 bits.
//
// Floor: 6 x 2 N K P Q C R S at the rate of mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include "mma/split.cuh"

namespace polyconv::cuda::tensor {
namespace {

constexpr int kTerms = 3;
using EmulatedProducts = ProductsOf<float, kSplitRow<kTerms>>;

constexpr int kBlocksTogether = 4; // of k, which the matrix units sum

template <class Tile, class Body>
__device__ inline void for_sums(const Body &body) {
#pragma unroll
  for (int i = 0; i < Tile::warp_pixels / 16; ++i)
#pragma unroll
    for (int j = 0; j < Tile::warp_channels / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) body(i, j, e);
}

struct SplitLoop {
  template <class Tile, Source Kind>
  __device__ static void multiply(MmaSums<Tile> &sums, const MmaProduct &p, unsigned char *stages,
                                  const Corner &corner) {
    const SplitFragments<Tile, kTerms> operands(static_cast<uint32_t>(__cvta_generic_to_shared(stages)));
    MmaSums<Tile> part = {};
    bool all = true;
#pragma unroll 1
    for (;;) {
      Pipeline<EmulatedProducts, Tile, Kind> pipeline(p, stages, corner);
#pragma unroll 1
      for (int32_t left = pipeline.blocks(); left > 0; --left) {
        pipeline.fetch(0);
        pipeline.fetch(1);
        operands.multiply(part, pipeline.now(), all);
        pipeline.turn();
        pipeline.deposit();
        if (all && left % kBlocksTogether == 1)
          for_sums<Tile>([&](int i, int j, int e) { sums[i][j][e] += part[i][j][e], part[i][j][e] = 0; });
      }
      pipeline.finish();
      if (!all) break;
      bool finite = true;
      for_sums<Tile>([&](int i, int j, int e) { finite = finite && fabsf(sums[i][j][e]) < INFINITY; });
      if (!__syncthreads_or(!finite)) return;
      all = false;
    }
    for_sums<Tile>([&](int i, int j, int e) {
      if (!(fabsf(sums[i][j][e]) < INFINITY)) sums[i][j][e] = part[i][j][e];
    });
  }
};

} // namespace

MmaLauncher mma_emulated(int tile, Source source) {
  // Warps of 32 x 64: each splits its activations, so that fewer along the channels split the same ones.
  return mma_by_spare_tile<SplitLoop, EmulatedProducts, MmaTile<128, 64, 32, 64, 4, 2>>(tile, source);
}

} // namespace polyconv::cuda::tensor
