// wgmma_emulated_weights.cu - the gradient of weights, f32 under math fp32_emulated, channels last, compute
// capability 9.0: factors in three bf16 each, six products, sums that round to nearest every 32 pixels
// (wgmma_weights_parts.cu). Configs are tiles, output channels x columns.
//
// Floor: 6 x 2 N K P Q C R S at the rate of bf16, 132 TFLOP/s of f32 on an H200, and a copy of both factors.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma_weights_parts.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kParts = 3;

bool supports_parts(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", request.count);
  if (request.policy->math < POLYCONV_MATH_FP32_EMULATED)
    return offer.reject("splits the factors of its products: only under math fp32_emulated or freer");
  offer.math = POLYCONV_MATH_FP32_EMULATED;
  return wgmma::supports_weights_parts(request, config, kParts, offer);
}

std::unique_ptr<sdk::Instance> create_parts(const polyconv_request &request, int32_t config) {
  return wgmma::create_weights_parts(request, config, kParts);
}

} // namespace

extern const sdk::Kernel kernel_wgmma_emulated_weights;
const sdk::Kernel kernel_wgmma_emulated_weights = {
    "wgmma_emulated_weights", 0, wgmma::kPartsNames, wgmma::kPartsShapeCount, supports_parts, create_parts};

} // namespace polyconv::cuda
