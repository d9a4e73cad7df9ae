// col2im_data.cpp - backward data on the tensor cores: one product from the output's gradient to a column for each tap
// and input channel, which then are folded into the input's gradient (common/rewrite/col2im.hpp). Columns are f32, so
// the products are those that store f32.
//
// Floor: the columns, C R S times the output's pixels, are written and read.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/col2im.hpp"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_mma, kernel_wgmma_tf32, kernel_mma_tf32, kernel_wgmma_emulated, kernel_mma_emulated;
extern const sdk::Kernel kernel_col2im_data;
const sdk::Kernel kernel_col2im_data =
    rewritten_of<kColumns, POLYCONV_BACKWARD_DATA, kernel_wgmma_tf32, kernel_mma_tf32, kernel_wgmma_emulated,
                 kernel_mma_emulated, kernel_mma>("col2im_data");

} // namespace polyconv::cuda
