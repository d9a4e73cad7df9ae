// depthwise_last_data.cu - backward data of depthwise layers, channels last: depthwise_last.cu over the output's
// gradient (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_depthwise_last, kernel_depthwise_last_data;
const sdk::Kernel kernel_depthwise_last_data = adjoint_of<kernel_depthwise_last>("depthwise_last_data");

} // namespace polyconv::cuda
