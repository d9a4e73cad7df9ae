// banded_data.cu - backward data, f16 and bf16, few output channels: banded.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_banded, kernel_banded_data;
const sdk::Kernel kernel_banded_data = adjoint_of<kernel_banded>("banded_data");

} // namespace polyconv::cuda
