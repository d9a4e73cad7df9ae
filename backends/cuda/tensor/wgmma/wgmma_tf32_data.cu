// wgmma_tf32_data.cu - backward data, f32 under math tf32, channels last, compute capability 9.0: wgmma_tf32.cu over
// the output's gradient (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma_tf32, kernel_wgmma_tf32_data;
const sdk::Kernel kernel_wgmma_tf32_data = adjoint_of<kernel_wgmma_tf32>("wgmma_tf32_data");

} // namespace polyconv::cuda
