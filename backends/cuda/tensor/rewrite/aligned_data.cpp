// aligned_data.cpp - backward data, odd numbers of channels: pixels copied to whole 16 bytes
// (common/rewrite/aligned.hpp), then the Hopper product over the output's gradient. Types as aligned.cpp.
//
// Floor: the product's, and what is copied three times instead of once.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"
#include "common/rewrite/aligned.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma, kernel_wgmma_halo, kernel_wgmma_tf32, kernel_wgmma_emulated;

namespace {
const sdk::Kernel kProduct = adjoint_of<kernel_wgmma>("wgmma"), kHalo = adjoint_of<kernel_wgmma_halo>("wgmma_halo"),
                  kTf32 = adjoint_of<kernel_wgmma_tf32>("wgmma_tf32"),
                  kEmulated = adjoint_of<kernel_wgmma_emulated>("wgmma_emulated");
} // namespace

extern const sdk::Kernel kernel_aligned_data;
const sdk::Kernel kernel_aligned_data =
    rewritten_of<kAligned, POLYCONV_BACKWARD_DATA, kProduct, kHalo, kTf32, kEmulated>("aligned_data");

} // namespace polyconv::cuda
