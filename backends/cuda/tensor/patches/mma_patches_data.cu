// mma_patches_data.cu - backward data, f16 and bf16: mma_patches.cu over the output's gradient (sdk/adjoint.hpp): what
// layers of few input channels need. Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_mma_patches, kernel_mma_patches_data;
const sdk::Kernel kernel_mma_patches_data = adjoint_of<kernel_mma_patches>("mma_patches_data");

} // namespace polyconv::cuda
