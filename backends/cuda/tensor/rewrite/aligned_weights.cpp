// aligned_weights.cpp - the gradient of weights, odd numbers of channels: pixels copied to whole 16 bytes
// (common/rewrite/aligned.hpp), then the Hopper product whose depth they are. f16, bf16.
//
// Floor: the product's, and what is copied three times instead of once.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/aligned.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma_weights, kernel_aligned_weights;
const sdk::Kernel kernel_aligned_weights =
    rewritten_of<kAligned, POLYCONV_BACKWARD_WEIGHTS, kernel_wgmma_weights>("aligned_weights");

} // namespace polyconv::cuda
