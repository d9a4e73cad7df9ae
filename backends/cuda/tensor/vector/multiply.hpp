// multiply.hpp - products of few rows (common/vector/vector.hpp) in f16 and bf16, with mma.sync.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector/vector.hpp"

namespace polyconv::cuda::tensor {

// In 16 filters and 8 or 32 rows a block, or 32 and 64. `vectors`: x is read in 16 bytes at a time.
template <class T>
VectorLauncher vector_launcher_of(const VectorShape &shape, bool vectors);

} // namespace polyconv::cuda::tensor
