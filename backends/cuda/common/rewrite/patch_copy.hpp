// patch_copy.hpp - between a tensor and the matrix of its windows (patch.hpp) in the workspace, each element once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "common/rewrite/patch.hpp"

namespace polyconv::cuda {

// Whether the matrix and an image are within what the copy counts in 32 bits; `row`: elements of one, in whole 16
// bytes.
bool fits_patch_copy(const PatchMatrix &windows, int64_t row);

// Microseconds of either way.
double patch_copy_us(const PatchMatrix &windows, int64_t row);

// From the tensor to the matrix, whose rows end in zeros.
void gather_patches(const PatchMatrix &windows, int64_t row, const void *tensor, void *matrix, cudaStream_t stream);

// And back; the ends of rows are left out.
void scatter_patches(const PatchMatrix &windows, int64_t row, const void *matrix, void *tensor, cudaStream_t stream);

// A value for each element of a row, from one for each channel; zeros at its end. `bytes` of a value: 4 or 8.
void spread_channels(const PatchMatrix &windows, PatchOrder order, int64_t row, const void *channels, void *elements,
                     int64_t bytes, cudaStream_t stream);

} // namespace polyconv::cuda
