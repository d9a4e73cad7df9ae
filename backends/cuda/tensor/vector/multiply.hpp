// multiply.hpp - products of few rows (common/vector/vector.hpp) in f16 and bf16, with mma.sync.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector/vector.hpp"

namespace polyconv::cuda::tensor {

// In 16 filters and 8 or 32 rows a block, or 32 and 64. `vectors`: x is read in 16 bytes at a time.
VectorLauncher vector_f16(const VectorShape &shape, bool vectors);
VectorLauncher vector_bf16(const VectorShape &shape, bool vectors);
void pack_vector_16(const polyconv_layer &layer, const VectorLayer &v, const void *raw, void *packed,
                    cudaStream_t stream);

} // namespace polyconv::cuda::tensor
