// wgmma_tf32_weights.cu - the gradient of weights, f32 under math tf32, channels last, compute capability 9.0. The TF32
// product takes no factors along the channels, so they come in two bf16 each, 16 bits where TF32 has 11, and three
// products (wgmma_weights_parts.cu). Configs are tiles, output channels x columns.
//
// Floor: 3 x 2 N K P Q C R S at the rate of bf16, 263 TFLOP/s on an H200, and a copy of both factors.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma_weights_parts.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kParts = 2;

bool supports_parts(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", request.count);
  if (request.policy->math < POLYCONV_MATH_TF32)
    return offer.reject("rounds the factors of its products: only under math tf32 or freer");
  offer.math = POLYCONV_MATH_TF32;
  return wgmma::supports_weights_parts(request, config, kParts, offer);
}

std::unique_ptr<sdk::Instance> create_parts(const polyconv_request &request, int32_t config) {
  return wgmma::create_weights_parts(request, config, kParts);
}

} // namespace

extern const sdk::Kernel kernel_wgmma_tf32_weights;
const sdk::Kernel kernel_wgmma_tf32_weights = {
    "wgmma_tf32_weights", 0, wgmma::kPartsNames, wgmma::kPartsShapeCount, supports_parts, create_parts};

} // namespace polyconv::cuda
