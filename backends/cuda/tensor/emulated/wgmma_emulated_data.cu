// wgmma_emulated_data.cu - backward data, f32 under math fp32_emulated, channels last, compute capability 9.0:
// wgmma_emulated.cu over the output's gradient (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma_emulated, kernel_wgmma_emulated_data;
const sdk::Kernel kernel_wgmma_emulated_data = adjoint_of<kernel_wgmma_emulated>("wgmma_emulated_data");

} // namespace polyconv::cuda
