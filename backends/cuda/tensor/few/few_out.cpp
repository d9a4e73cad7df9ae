// few_out.cpp - forward 2D for few filters in f16 and bf16, from channels last into any layout, on the matrix units:
// the taps of all filters together, 64 at most, are rows of one product, so that every input is read once.
//
// Floor: compulsory bytes / copy rate. 320 -> 4 channels of 64 x 64, N = 8: 21 MB.
// SPDX-License-Identifier: Apache-2.0
#include "few/few_out.hpp"
#include "common/kernel.hpp"
#include "few/few.hpp"

namespace polyconv::cuda {

POLYCONV_DEFINE_KERNEL(few_out, few_out::kConfigNames, few::supports_16_bits<few_out::supports>, few_out::create);

} // namespace polyconv::cuda
