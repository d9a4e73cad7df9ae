// octets.cpp - forward 2D for few input channels in f16 and bf16, channels first, on warpgroup products whose columns
// are eight images side by side.
//
// Floor: max(compulsory bytes / copy rate, products / their rate). Of 8 pixels 7 taps use 7, of 8 input rows for two
// output rows likewise: 77 % of the products are wanted ones; with 24 filters on the 32 of a product, 66 %.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "octets/plan.hpp"

namespace polyconv::cuda {

// No flag: every way through a layer adds up in the same order, and an image's bits are its own.
POLYCONV_DEFINE_KERNEL(octets, octets::kConfigNames, octets::supports, octets::create);

} // namespace polyconv::cuda
