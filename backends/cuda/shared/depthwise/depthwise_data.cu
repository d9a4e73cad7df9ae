// depthwise_data.cu - backward data of depthwise layers, channels first: depthwise.cu over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_depthwise, kernel_depthwise_data;
const sdk::Kernel kernel_depthwise_data = adjoint_of<kernel_depthwise>("depthwise_data");

} // namespace polyconv::cuda
