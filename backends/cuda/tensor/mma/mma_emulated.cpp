// mma_emulated.cpp - forward, f32 under math fp32_emulated: the product of mma.cpp with factors in three bf16 each; see
// product_emulated.cu.
//
// Floor: 6 x 2 N K P Q C R S at the rate of bf16.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "mma/product.hpp"

namespace polyconv::cuda {

using tensor::Products;

POLYCONV_DEFINE_KERNEL(mma_emulated, tensor::kMmaConfigs, tensor::mma_supports_as<Products::kEmulated>,
                       tensor::mma_create_as<Products::kEmulated>);

} // namespace polyconv::cuda
