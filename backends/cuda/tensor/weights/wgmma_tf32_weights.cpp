// wgmma_tf32_weights.cpp - the gradient of weights, f32 under math tf32, channels last, compute capability 9.0. The
// TF32 product takes no factors along the channels, so they come in two bf16 each, 16 bits where TF32 has 11, and three
// products (parts.cu). Configs are tiles, output channels x columns.
//
// Floor: 3 x 2 N K P Q C R S at the rate of bf16, 263 TFLOP/s on an H200, and a copy of both factors.
// SPDX-License-Identifier: Apache-2.0
#include "weights/parts.hpp"

namespace polyconv::cuda {
namespace {
constexpr wgmma::Splitting kSplitting = {2, POLYCONV_MATH_TF32, "tf32"};
}

extern const sdk::Kernel kernel_wgmma_tf32_weights;
const sdk::Kernel kernel_wgmma_tf32_weights = wgmma::weights_of_parts<kSplitting>("wgmma_tf32_weights");

} // namespace polyconv::cuda
