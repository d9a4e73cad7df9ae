// implicit_data.cu - backward data, every float type: implicit.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_implicit, kernel_implicit_data;
const sdk::Kernel kernel_implicit_data = adjoint_of<kernel_implicit>("implicit_data");

} // namespace polyconv::cuda
