// f32.cu - the gradient of weights of f32, gathered.
// SPDX-License-Identifier: Apache-2.0
#include "gradient/gradient.cuh"

namespace polyconv::cuda::gemm {
namespace {

template <class Tile>
GradientLauncher by_reach(Reach reach) {
  return reach == Reach::kVectors ? gradient_launcher<float, Tile, Reach::kVectors>()
                                  : gradient_launcher<float, Tile, Reach::kColumns>();
}

} // namespace

GradientLauncher gradient_f32(int tile, Reach reach) {
  if (reach == Reach::kPixels) return gradient_launcher<float, GradientTile64x64, Reach::kPixels>();
  if (tile == kGradient128x128) return by_reach<GradientTile128x128>(reach);
  if (tile == kGradient128x64) return by_reach<GradientTile128x64>(reach);
  return by_reach<GradientTile64x64>(reach);
}

} // namespace polyconv::cuda::gemm
