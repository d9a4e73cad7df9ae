// mma_fast.cu - forward, f32 under math fast: the product of mma.cu with factors rounded to bf16 (8 bits, and the range
// of f32) on the way to the matrix units, and f32 sums. The tensors stay f32, and no pass converts them.
//
// Floor: 2 N K P Q C R S at the rate of bf16, or the bytes of f32.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "mma/product.hpp"

namespace polyconv::cuda {

using tensor::Products;

POLYCONV_DEFINE_KERNEL(mma_fast, tensor::kMmaConfigs, tensor::mma_supports_as<Products::kFast>,
                       tensor::mma_create_as<Products::kFast>);

} // namespace polyconv::cuda
