// wgmma_emulated_weights.cpp - the gradient of weights, f32 under math fp32_emulated, channels last, compute
// capability 9.0: factors in three bf16 each, six products, sums that round to nearest every 32 pixels
// (parts.cu). Configs are tiles, output channels x columns.
//
// Floor: 6 x 2 N K P Q C R S at the rate of bf16, 132 TFLOP/s of f32 on an H200, and a copy of both factors.
// SPDX-License-Identifier: Apache-2.0
#include "weights/parts.hpp"

namespace polyconv::cuda {
namespace {
constexpr wgmma::Splitting kSplitting = {3, POLYCONV_MATH_FP32_EMULATED, "fp32_emulated"};
}

extern const sdk::Kernel kernel_wgmma_emulated_weights;
const sdk::Kernel kernel_wgmma_emulated_weights = wgmma::weights_of_parts<kSplitting>("wgmma_emulated_weights");

} // namespace polyconv::cuda
