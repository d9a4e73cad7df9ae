// wgmma_halo_data.cu - backward data, f16 and bf16, channels last, at most 64 output channels, compute capability 9.0:
// wgmma_halo.cu over the output's gradient (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma_halo, kernel_wgmma_halo_data;
const sdk::Kernel kernel_wgmma_halo_data = adjoint_of<kernel_wgmma_halo>("wgmma_halo_data");

} // namespace polyconv::cuda
