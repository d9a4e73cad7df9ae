// mma_fast_data.cu - backward data, f32 under math fast: mma_fast.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_mma_fast, kernel_mma_fast_data;
const sdk::Kernel kernel_mma_fast_data = adjoint_of<kernel_mma_fast>("mma_fast_data");

} // namespace polyconv::cuda
