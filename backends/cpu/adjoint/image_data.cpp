// image_data.cpp - backward data, single planes: image.cpp over the output's gradient (sdk/adjoint.hpp). Floor: as
// forward.
// SPDX-License-Identifier: Apache-2.0
#ifdef POLYCONV_DRIVER
#include "cpu/adjoint/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

const sdk::Kernel kernel_image_data = adjoint_of<kernel_image>("image_data");

} // namespace polyconv::cpu
#endif
