// vector_data.cu - backward data, strict f32: vector.cu over the output's gradient (sdk/adjoint.hpp). Floor: as
// forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_vector, kernel_vector_data;
const sdk::Kernel kernel_vector_data = adjoint_of<kernel_vector>("vector_data");

} // namespace polyconv::cuda
