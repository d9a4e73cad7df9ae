// wgmma_first_data.cu - backward data, f16 and bf16, channels first, compute capability 9.0: wgmma_first.cu over the
// output's gradient (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma_first, kernel_wgmma_first_data;
const sdk::Kernel kernel_wgmma_first_data = adjoint_of<kernel_wgmma_first>("wgmma_first_data");

} // namespace polyconv::cuda
