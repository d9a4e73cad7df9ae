// rows_copy.hpp - between a dense tensor, channels last, and rows of its pixels in the workspace, each of whole 16
// bytes (aligned.hpp). What patch_copy.hpp does for any tensor, this does in vectors where pixels lie one after the
// other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda {

// Whether pixels lie one after the other, were the pointer aligned to 16 bytes; elements of 2 or 4 bytes, at least as
// many channels as 16 bytes hold, and fewer than 2^31 elements in all.
bool fits_rows_copy(const polyconv_tensor &tensor);

// Microseconds of either way; `row`: elements of one, in whole 16 bytes.
double rows_copy_us(const polyconv_tensor &tensor, int64_t row);

// From the tensor to rows, which end in zeros. Both begin at whole 16 bytes.
void gather_rows(const polyconv_tensor &tensor, int64_t row, const void *from, void *rows, cudaStream_t stream);

// And back; the ends of rows are left out.
void scatter_rows(const polyconv_tensor &tensor, int64_t row, const void *rows, void *to, cudaStream_t stream);

} // namespace polyconv::cuda
