// col2im.hpp - gradients of data as products with no window: columns[output][tap, channel] = sum over filters of
// dy[output][filter] * w[filter][tap, channel], which is a layer of one tap, and then the columns folded into the
// input's gradient (fold.hpp), the way back from im2col. No product is of what lies beside the image or between
// strides, and as many results as a window has elements share every dy: the way for few input channels, strides with
// overlapping windows, and volumes whose gradient is much larger than dy.
//
//   extern const sdk::Kernel kernel_implicit, kernel_col2im_data;
//   const sdk::Kernel kernel_col2im_data =
//       rewritten_of<kColumns, POLYCONV_BACKWARD_DATA, kernel_implicit>("col2im_data");
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/rewrite/products.hpp"

namespace polyconv::cuda {

extern const Rewrite kColumns;

} // namespace polyconv::cuda
