// multiply.hpp - products of few rows (common/vector/vector.hpp) in strict f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector/vector.hpp"

namespace polyconv::cuda::gemm {

// Of 16 filters and 1, 4 or 16 rows a block. `vectors`: x is read in 16 bytes at a time.
VectorLauncher vector_f32(int rows, bool vectors);
void pack_vector_f32(const polyconv_layer &layer, const VectorLayer &v, const void *raw, void *packed,
                     cudaStream_t stream);

} // namespace polyconv::cuda::gemm
