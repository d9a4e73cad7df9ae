// tiles_data.cu - backward data, few channels: tiles.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_tiles, kernel_tiles_data;
const sdk::Kernel kernel_tiles_data = adjoint_of<kernel_tiles>("tiles_data");

} // namespace polyconv::cuda
