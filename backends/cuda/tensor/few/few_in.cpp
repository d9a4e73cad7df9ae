// few_in.cpp - forward 2D for few input channels in f16 and bf16, channels last, on the matrix units: taps and channels
// together are the depth of one product. Filters of every size that 52 units of four channels of a tap hold; any
// stride and dilation.
//
// Floor: compulsory bytes / copy rate. 3 -> 64 channels of 224 x 224, N = 128: 861 MB, of which 822 are results.
// SPDX-License-Identifier: Apache-2.0
#include "few/few_in.hpp"
#include "common/kernel.hpp"
#include "few/few.hpp"

namespace polyconv::cuda {

using few_in::Products;

POLYCONV_DEFINE_KERNEL(few_in, few_in::kConfigNames, few::supports_16_bits<few_in::supports_as<Products::kPlain>>,
                       few_in::create_as<Products::kPlain>);

} // namespace polyconv::cuda
