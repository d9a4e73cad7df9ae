// deep.cu - the gradient of weights of f32 whose pixels are neighbours.
// SPDX-License-Identifier: Apache-2.0
#include "gradient/deep.cuh"

namespace polyconv::cuda::gemm {
namespace {

// `Both`: the tile where both factors are fetched four pixels at a time, which leaves registers for a third stage.
template <class Tile, class Both = Tile>
GradientLauncher by_runs(Runs runs) {
  if (runs == Runs::kBoth) return deep_launcher<Both, 4, 4>();
  return runs == Runs::kOutput ? deep_launcher<Tile, 1, 4>() : deep_launcher<Tile, 1, 1>();
}

} // namespace

GradientLauncher gradient_deep(int tile, Runs runs) {
  switch (tile) {
    case kGradient256x128: return by_runs<DeepTile<256, 128, 16, 1, 2>, DeepTile<256, 128, 16, 1, 3> >(runs);
    case kGradient128x64: return by_runs<DeepTile<128, 64, 8, 2, 3> >(runs);
    case kGradient128x32: return by_runs<DeepTile<128, 32, 8, 4, 2> >(runs);
    case kGradient128x24: return by_runs<DeepTile<128, 24, 8, 4, 2> >(runs);
    case kGradient64x32: return by_runs<DeepTile<64, 32, 8, 2, 4, 4> >(runs);
    case kGradient32x32: return by_runs<DeepTile<32, 32, 4, 3, 4, 4> >(runs);
    default: return by_runs<DeepTile<64, 64, 8, 4, 2> >(runs);
  }
}

} // namespace polyconv::cuda::gemm
