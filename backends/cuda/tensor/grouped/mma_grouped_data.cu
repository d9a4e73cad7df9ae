// mma_grouped_data.cu - backward data, f16 and bf16, small groups: mma_grouped.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_mma_grouped, kernel_mma_grouped_data;
const sdk::Kernel kernel_mma_grouped_data = adjoint_of<kernel_mma_grouped>("mma_grouped_data");

} // namespace polyconv::cuda
