// wgmma.cpp - forward, f16 and bf16, channels last, compute capability 9.0: the implicit matrix product on Hopper's
// tensor cores, its activations fetched by the TMA's im2col mode (product.cuh). Configs are tiles, pixels x
// channels x depth; "t2": two teams of warps take a tile each in turn; "g2": two groups lie side by side in a tile;
// "k4": depth is split over four tiles, whose partial sums lie in the workspace and are added in the order of depth.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/kernel.hpp"
#include "wgmma/product.hpp"

namespace polyconv::cuda {
namespace {

#define POLYCONV_NAME(shape, splits, name, suffix) name "x64" suffix,
#define POLYCONV_GROUPED_NAME(shape, splits, name, suffix) name "64x64" suffix,
#define POLYCONV_NARROW_NAME(shape, splits, name, suffix) name "x32" suffix,
constexpr const char *kNames[] = {POLYCONV_WGMMA_CONFIGS(POLYCONV_NAME) POLYCONV_WGMMA_NARROW_CONFIGS(
    POLYCONV_NARROW_NAME) POLYCONV_WGMMA_GROUPED_CONFIGS(POLYCONV_GROUPED_NAME)};
#undef POLYCONV_NAME
#undef POLYCONV_NARROW_NAME
#undef POLYCONV_GROUPED_NAME

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const int32_t type = request.layers[0]->input.type;
  if (!is_half(type) || request.layers[0]->weights.type != type)
    return offer.reject("takes f16 and bf16, the same for input and weights");
  return wgmma::supports(request, config, offer);
}

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma, kNames, supports, wgmma::create);

} // namespace polyconv::cuda
