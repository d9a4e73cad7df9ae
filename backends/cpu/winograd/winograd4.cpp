// winograd4.cpp - dense 3 x 3 layers of f32 by Winograd's F(4 x 4, 3 x 3), under math fast.
//
// Floor: 2.25 multiply-adds a result and pair of channels where the sum itself has 9, so 4 times the FMA rate, less the
// transforms, which cost 4 to 5 loads or stores an element of input and result; and weights of 4 times their size.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void winograd_task4(const WinogradPlan &plan, const LayerRun &run, const ItemShare &share) {
  winograd_share<4>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
