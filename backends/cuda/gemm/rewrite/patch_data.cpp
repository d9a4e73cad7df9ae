// patch_data.cpp - backward data, every float type, windows that do not overlap, and transposed layers that upsample by
// their window: implicit.cpp from the output's gradient to windows as pixels (common/rewrite/patch.hpp).
//
// Floor: 2 N K P Q C R S at the FMA rate, 50.5 TFLOP/s of strict f32 on an H200, or input and output once; where
// windows are copied, the result three times.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_kernel.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_implicit, kernel_patch_data;
const sdk::Kernel kernel_patch_data = rewritten_of<kPatches, POLYCONV_BACKWARD_DATA, kernel_implicit>("patch_data");

} // namespace polyconv::cuda
