// few_in_tf32.cpp - forward 2D for few input channels, f32 under math tf32: few_in with elements rounded to TF32 on
// their way into shared memory.
//
// Floor: compulsory bytes / copy rate.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "few/few_in.hpp"
#include "rounded.hpp"

namespace polyconv::cuda {

using few_in::Products;

POLYCONV_DEFINE_KERNEL(few_in_tf32, few_in::kConfigNames,
                       supports_f32<POLYCONV_MATH_TF32, few_in::supports_as<Products::kTf32>>,
                       few_in::create_as<Products::kTf32>);

} // namespace polyconv::cuda
