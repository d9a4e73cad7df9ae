// pointwise_data.cpp - backward data of 1 x 1, channels first: pointwise.cpp over the output's gradient
// (sdk/adjoint.hpp). Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#ifdef POLYCONV_DRIVER
#include "cpu/adjoint/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

const sdk::Kernel kernel_pointwise_data = adjoint_of<kernel_pointwise>("pointwise_data");

} // namespace polyconv::cpu
#endif
