// grouped_data.cpp - backward data, several channels or filters a group: grouped.cpp over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#ifdef POLYCONV_DRIVER
#include "cpu/adjoint/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

const sdk::Kernel kernel_grouped_data = adjoint_of<kernel_grouped>("grouped_data");

} // namespace polyconv::cpu
#endif
