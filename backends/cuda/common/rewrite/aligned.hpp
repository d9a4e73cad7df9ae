// aligned.hpp - kernels for layers whose pixels do not begin at whole 16 bytes, which is what odd numbers of channels
// come to: tensor maps cannot address such pixels. They are copied to rows that do, in the workspace, and a kernel of a
// list multiplies those; results leave for such rows and are copied to where they belong (products.hpp).
//
//   extern const sdk::Kernel kernel_wgmma, kernel_aligned;
//   const sdk::Kernel kernel_aligned = rewritten_of<kAligned, POLYCONV_FORWARD, kernel_wgmma>("aligned");
//
// The list has kernels of the direction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/rewrite/products.hpp"

namespace polyconv::cuda {

extern const Rewrite kAligned;

} // namespace polyconv::cuda
