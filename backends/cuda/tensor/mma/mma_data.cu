// mma_data.cu - backward data, f16 and bf16: mma.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_mma, kernel_mma_data;
const sdk::Kernel kernel_mma_data = adjoint_of<kernel_mma>("mma_data");

} // namespace polyconv::cuda
