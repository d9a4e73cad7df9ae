// mma_fast.cu - forward, f32 under math fast: the product of mma.cu with factors rounded to bf16 (8 bits, and the range
// of f32) on the way to the matrix units, and f32 sums. The tensors stay f32, and no pass converts them.
//
// Floor: 2 N K P Q C R S at the rate of bf16, or the bytes of f32.
// SPDX-License-Identifier: Apache-2.0
#include "mma/product.hpp"

namespace polyconv::cuda {

using tensor::Products;

extern const sdk::Kernel kernel_mma_fast;
const sdk::Kernel kernel_mma_fast = {"mma_fast",
                                     0,
                                     tensor::kMmaConfigs,
                                     tensor::kMmaConfigCount,
                                     tensor::mma_supports_as<Products::kFast>,
                                     tensor::mma_create_as<Products::kFast>};

} // namespace polyconv::cuda
