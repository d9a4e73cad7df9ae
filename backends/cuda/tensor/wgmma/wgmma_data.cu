// wgmma_data.cu - backward data, f16 and bf16, channels last, compute capability 9.0: wgmma.cu over the output's
// gradient (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma, kernel_wgmma_data;
const sdk::Kernel kernel_wgmma_data = adjoint_of<kernel_wgmma>("wgmma_data");

} // namespace polyconv::cuda
