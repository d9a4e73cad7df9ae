// banded.cpp - forward 2D for few input channels in f16 and bf16, on the matrix units: the weights are the band of a
// matrix (filter, row and column of the output x elements of a window), the other operand is the image as it lies in
// memory. From five channels on windows are long enough without bands.
//
// Floor: max(compulsory bytes / copy rate, matrix instructions / their rate). A band of 7 taps for two neighbouring
// outputs fills 7 of 8 elements of a window, and 7 of the 8 rows of two output rows: 77 % of the products are wanted
// ones. One filter alone takes windows of 16 elements for 8 outputs: 38 %.
// SPDX-License-Identifier: Apache-2.0
#include "banded/banded.hpp"
#include "common/kernel.hpp"
#include "few/few.hpp"

namespace polyconv::cuda {

// Which form a config takes, and when its sums get their bias, depends on the batch and on the pointers' alignment.
POLYCONV_DEFINE_KERNEL(banded, banded::kConfigNames, few::supports_16_bits<banded::supports>, banded::create,
                       POLYCONV_KERNEL_VARIANT);

} // namespace polyconv::cuda
