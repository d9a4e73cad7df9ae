// depthwise.cpp - one channel a group, one filter a channel. Channels last: vectors of channels; channels first:
// vectors along W, the filter of planes, or, where planes are small or read at strides, vectors of channels of pixels
// that are turned in the cache. Every type (channels first: float and image types), kernel, stride, dilation, border.
//
// Floor: one read and one write of the tensors; a 3x3 has 9 multiply-adds for them, so it is memory that counts beyond
// the caches. Inside them a row of 8 pixels loads 10 vectors for 24 multiply-adds of each row of taps.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/ring.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

#if defined(POLYCONV_DOTS)
// The pass whose instruction rounds to bf16: without one a vector of results takes as long to round as nine
// multiply-adds.
void depthwise_bf16_task(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share);
void depthwise_bf16_task(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share) {
  depthwise_share<DepthwiseFilter, bf16, float>(plan, run, share);
}
#else
void depthwise_turned_task(const TurnedPlan &plan, const LayerRun &run, const TurnedShare &share) {
  turned_typed(plan, run, share);
}

void depthwise_ring_task(const RingPlan &plan, const LayerRun &run, const RingShare &share) {
  ring_share(plan, run, share);
}

void depthwise_task(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share) {
  depthwise_typed<DepthwiseFilter>(plan, run, share);
}
#endif

} // namespace polyconv::cpu::POLYCONV_ISA
