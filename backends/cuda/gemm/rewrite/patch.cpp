// patch.cpp - forward, every float type, windows that do not overlap: implicit.cpp over windows as pixels
// (common/rewrite/patch.hpp).
//
// Floor: 2 N K P Q C R S at the FMA rate, 50.5 TFLOP/s of strict f32 on an H200, or input and output once; where
// windows are copied, the input three times.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_kernel.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_implicit, kernel_patch;
const sdk::Kernel kernel_patch = rewritten_of<kPatches, POLYCONV_FORWARD, kernel_implicit>("patch");

} // namespace polyconv::cuda
