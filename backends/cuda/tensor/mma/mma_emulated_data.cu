// mma_emulated_data.cu - backward data, f32 under math fp32_emulated: mma_emulated.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_mma_emulated, kernel_mma_emulated_data;
const sdk::Kernel kernel_mma_emulated_data = adjoint_of<kernel_mma_emulated>("mma_emulated_data");

} // namespace polyconv::cuda
