// aligned.cpp - forward, odd numbers of channels: pixels copied to whole 16 bytes (common/rewrite/aligned.hpp), then
// the Hopper product. f16, bf16; f32 under math tf32 or fp32_emulated.
//
// Floor: the product's, and what is copied three times instead of once.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/aligned.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma, kernel_wgmma_halo, kernel_wgmma_tf32, kernel_wgmma_emulated;
extern const sdk::Kernel kernel_aligned;
const sdk::Kernel kernel_aligned =
    rewritten_of<kAligned, POLYCONV_FORWARD, kernel_wgmma, kernel_wgmma_halo, kernel_wgmma_tf32, kernel_wgmma_emulated>(
        "aligned");

} // namespace polyconv::cuda
