// outer.hpp - gradients of weights over few rows (common/vector/outer.hpp) in f16 and bf16, with mma.sync.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector/outer.hpp"

namespace polyconv::cuda::tensor {

// In 16 filters x 16 of the depth a warp, or 64 x 64.
template <class T>
OuterLauncher outer_launcher(const OuterShape &shape);

} // namespace polyconv::cuda::tensor
