// mma_tf32.cpp - forward, f32 under math tf32: the product of mma.cpp with factors rounded to TF32 (to nearest, 11
// bits) and f32 sums.
//
// Floor: 2 N K P Q C R S at half the rate of f16.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "mma/product.hpp"

namespace polyconv::cuda {

using tensor::Products;

POLYCONV_DEFINE_KERNEL(mma_tf32, tensor::kMmaConfigs, tensor::mma_supports_as<Products::kTf32>,
                       tensor::mma_create_as<Products::kTf32>);

} // namespace polyconv::cuda
