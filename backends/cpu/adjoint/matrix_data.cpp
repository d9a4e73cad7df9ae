// matrix_data.cpp - backward data on AMX tiles: matrix.cpp over the output's gradient (sdk/adjoint.hpp). Floor: as
// forward.
// SPDX-License-Identifier: Apache-2.0
#ifdef POLYCONV_DRIVER
#include "cpu/adjoint/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

const sdk::Kernel kernel_matrix_data = adjoint_of<kernel_matrix>("matrix_data");

} // namespace polyconv::cpu
#endif
