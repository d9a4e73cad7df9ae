// patch.cpp - forward, windows that do not overlap (patch embeddings, downsampling by 2 x 2 at stride 2): one product
// of windows with filters, by the kernel of the matrix units that suits it (common/rewrite/patch.hpp). f16 and bf16;
// f32 under math tf32 or fp32_emulated.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, or input and output once; where windows are copied, the input
// three times.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_kernel.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma, kernel_pointwise, kernel_mma, kernel_wgmma_tf32, kernel_wgmma_emulated;
extern const sdk::Kernel kernel_patch;
const sdk::Kernel kernel_patch = rewritten_of<kPatches, POLYCONV_FORWARD, kernel_wgmma, kernel_pointwise, kernel_mma,
                                              kernel_wgmma_tf32, kernel_wgmma_emulated>("patch");

} // namespace polyconv::cuda
