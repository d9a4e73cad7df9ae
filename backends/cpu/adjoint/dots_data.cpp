// dots_data.cpp - backward data in bf16 and 8 bits: dots.cpp over the output's gradient (sdk/adjoint.hpp). Floor: as
// forward.
// SPDX-License-Identifier: Apache-2.0
#ifdef POLYCONV_DRIVER
#include "cpu/adjoint/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

const sdk::Kernel kernel_dots_data = adjoint_of<kernel_dots>("dots_data");

} // namespace polyconv::cpu
#endif
