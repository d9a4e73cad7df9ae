// fold.hpp - the second half of a gradient of data by columns (col2im.hpp): a tensor of columns, a column for each
// tap and input channel of every output, folded into the input's gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "common/rewrite/columns.hpp"

namespace polyconv::cuda {

// Microseconds. `columns`: the tensor, one channel a column, of the output's pixels and the type of sums.
double fold_us(const polyconv_layer &layer, const polyconv_tensor &columns);

// Every element of the result is the sum of the columns of all taps that read it, in the order of taps, and leaves by
// the layer's epilogue. Layer and columns fit in 31 bits; the layer pads with zeros.
void fold_columns(const polyconv_layer &layer, const polyconv_tensor &columns, const ColumnOrder &order,
                  const void *data, const polyconv_arguments &arguments, cudaStream_t stream);

} // namespace polyconv::cuda
