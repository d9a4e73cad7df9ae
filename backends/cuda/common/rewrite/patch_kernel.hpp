// patch_kernel.hpp - kernels for layers whose windows do not overlap (patch.hpp), made of kernels that multiply:
// whichever of a list takes the layer of one tap (products.hpp).
//
//   extern const sdk::Kernel kernel_wgmma, kernel_mma, kernel_patch;
//   const sdk::Kernel kernel_patch = rewritten_of<kPatches, POLYCONV_FORWARD, kernel_wgmma, kernel_mma>("patch");
//
// The list has kernels that go forward, for BACKWARD_DATA too; for BACKWARD_WEIGHTS kernels of that direction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/rewrite/products.hpp"

namespace polyconv::cuda {

extern const Rewrite kPatches;

} // namespace polyconv::cuda
