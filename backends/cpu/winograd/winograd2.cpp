// winograd2.cpp - dense 3 x 3 layers of f32 by Winograd's F(2 x 2, 3 x 3), under math fast.
//
// Floor: 4 multiply-adds a result and pair of channels where the sum itself has 9, so 2.25 times the FMA rate, less the
// transforms, which cost 2 to 3 loads or stores an element of input and result; and weights of 16/9 their size.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void winograd_task2(const WinogradPlan &plan, const LayerRun &run, const ItemShare &share) {
  winograd_share<2>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
