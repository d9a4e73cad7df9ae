// few_out_tf32.cpp - forward 2D for few filters, f32 under math tf32: few_out with elements rounded to TF32 in
// registers.
//
// Floor: compulsory bytes / copy rate.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "few/few_out.hpp"
#include "rounded.hpp"

namespace polyconv::cuda {

POLYCONV_DEFINE_KERNEL(few_out_tf32, few_out::kConfigNames, supports_f32<POLYCONV_MATH_TF32, few_out::supports>,
                       few_out::create);

} // namespace polyconv::cuda
