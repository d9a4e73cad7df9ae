// patch_data.cpp - backward data, windows that do not overlap, and so transposed layers that upsample by their window:
// one product of the output's gradient with the filters, whose rows are the windows of the result
// (common/rewrite/patch.hpp). Types as patch.cpp.
//
// Floor: as forward; where windows are copied, the result three times.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_kernel.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma, kernel_pointwise, kernel_mma, kernel_wgmma_tf32, kernel_wgmma_emulated,
    kernel_wgmma_strided_data;
extern const sdk::Kernel kernel_patch_data;
const sdk::Kernel kernel_patch_data =
    rewritten_of<kPatches, POLYCONV_BACKWARD_DATA, kernel_wgmma, kernel_pointwise, kernel_mma, kernel_wgmma_tf32,
                 kernel_wgmma_emulated, kernel_wgmma_strided_data>("patch_data");

} // namespace polyconv::cuda
