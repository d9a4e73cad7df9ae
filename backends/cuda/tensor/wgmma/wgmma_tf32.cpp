// wgmma_tf32.cpp - forward, f32 under math tf32, channels last, compute capability 9.0: the product of wgmma.cpp with
// factors that the TMA rounds to TF32 on their way in.
//
// Floor: 2 N K P Q C R S at half the rate of f16, 418 TFLOP/s on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "rounded.hpp"
#include "wgmma/product.hpp"

namespace polyconv::cuda {
namespace {

#define POLYCONV_NAME(shape, splits, name, suffix) name "x32" suffix,
#define POLYCONV_GROUPED_NAME(shape, splits, name, suffix) name "32x32" suffix,
#define POLYCONV_NARROW_NAME(shape, splits, name, suffix) name "x16" suffix,
constexpr const char *kNames[] = {POLYCONV_WGMMA_CONFIGS(POLYCONV_NAME) POLYCONV_WGMMA_NARROW_CONFIGS(
    POLYCONV_NARROW_NAME) POLYCONV_WGMMA_GROUPED_CONFIGS(POLYCONV_GROUPED_NAME)};
#undef POLYCONV_NAME
#undef POLYCONV_NARROW_NAME
#undef POLYCONV_GROUPED_NAME

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return takes_f32_weights(request, POLYCONV_MATH_TF32, offer) && wgmma::supports(request, config, offer);
}

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_tf32, kNames, supports, wgmma::create);

} // namespace polyconv::cuda
