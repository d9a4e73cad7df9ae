// outer.hpp - gradients of weights over few rows (common/vector/outer.hpp) in strict f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector/outer.hpp"

namespace polyconv::cuda::gemm {

// In 16 filters x 32 of the depth a block, 16 x 128 or 64 x 64. For the current device.
OuterLauncher outer_f32(const OuterProduct &product, const OuterShape &shape);

} // namespace polyconv::cuda::gemm
