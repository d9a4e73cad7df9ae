// banded_tf32.cpp - forward 2D for few input channels, f32 under math tf32, compute capability 9.0: the tracks of
// banded.cpp with elements rounded to TF32 on their way into shared memory.
//
// Floor: max(compulsory bytes / copy rate, products / half the rate of f16).
// SPDX-License-Identifier: Apache-2.0
#include "banded/banded.hpp"
#include "common/kernel.hpp"
#include "rounded.hpp"

namespace polyconv::cuda {

POLYCONV_DEFINE_KERNEL(banded_tf32, banded::kConfigNames, supports_f32<POLYCONV_MATH_TF32, banded::supports>,
                       banded::create, POLYCONV_KERNEL_VARIANT);

} // namespace polyconv::cuda
