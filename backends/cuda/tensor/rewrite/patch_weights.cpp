// patch_weights.cpp - the gradient of weights, windows that do not overlap: one product of the output's gradient with
// the windows, pixels its depth (common/rewrite/patch.hpp). Types as patch.cpp.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, or input and output once; where windows are copied, the input
// three times.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_kernel.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma_weights, kernel_mma_weights, kernel_wgmma_tf32_weights,
    kernel_wgmma_emulated_weights, kernel_patch_weights;
const sdk::Kernel kernel_patch_weights =
    rewritten_of<kPatches, POLYCONV_BACKWARD_WEIGHTS, kernel_wgmma_weights, kernel_mma_weights,
                 kernel_wgmma_tf32_weights, kernel_wgmma_emulated_weights>("patch_weights");

} // namespace polyconv::cuda
