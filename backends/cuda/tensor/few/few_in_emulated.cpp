// few_in_emulated.cpp - forward 2D for few input channels, f32 under math fp32_emulated: few_in with every factor as
// the sum of three bf16, six products of them, and sums in f32. Where a sum is not finite it is computed again in f32.
//
// Floor: compulsory bytes / copy rate, or 6 x 2 N K P Q C R S at the rate of mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "few/few_in.hpp"
#include "rounded.hpp"

namespace polyconv::cuda {

using few_in::Products;

POLYCONV_DEFINE_KERNEL(few_in_emulated, few_in::kConfigNames,
                       supports_f32<POLYCONV_MATH_FP32_EMULATED, few_in::supports_as<Products::kEmulated>>,
                       few_in::create_as<Products::kEmulated>);

} // namespace polyconv::cuda
