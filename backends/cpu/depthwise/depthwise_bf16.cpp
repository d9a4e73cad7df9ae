// depthwise_bf16.cpp - depthwise convolution of bf16 with channels side by side, where an instruction rounds to it:
// without one a vector of results takes as long to round as nine multiply-adds.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void depthwise_bf16_task(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share);
void depthwise_bf16_task(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share) {
  depthwise_share<DepthwiseFilter, bf16, float>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
