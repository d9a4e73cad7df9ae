// patch_weights.cu - the gradient of weights, f32, f16 and bf16, windows that do not overlap: implicit_weights.cu over
// windows as pixels (common/rewrite/patch.hpp).
//
// Floor: 2 N K P Q C R S at the FMA rate, 50.5 TFLOP/s of strict f32 on an H200, or input and output once; where
// windows are copied, the input three times.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_kernel.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_implicit_weights, kernel_patch_weights;
const sdk::Kernel kernel_patch_weights =
    rewritten_of<kPatches, POLYCONV_BACKWARD_WEIGHTS, kernel_implicit_weights>("patch_weights");

} // namespace polyconv::cuda
