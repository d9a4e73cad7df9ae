// col2im_data.cpp - backward data, every float type: the textbook's two kernels, implicit.cpp from the output's
// gradient to a column for each tap and input channel, which then are folded into the input's gradient
// (common/rewrite/col2im.hpp).
//
// Floor: 2 N K P Q C R S at the FMA rate, 50.5 TFLOP/s of strict f32 on an H200; besides the columns, C R S times the
// output's pixels, are written and read.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/col2im.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_implicit, kernel_col2im_data;
const sdk::Kernel kernel_col2im_data = rewritten_of<kColumns, POLYCONV_BACKWARD_DATA, kernel_implicit>("col2im_data");

} // namespace polyconv::cuda
