// driver.hpp - the CPU-independent half of depthwise and grouped convolution with channels side by side. Driver side
// only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"
#include "cpu/depthwise/plan.hpp"

namespace polyconv::cpu {

// Fills the offer for a forward layer of one channel a group whose input channels lie side by side; or rejects it.
bool depthwise_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

// Sizes, shares and the estimate.
DepthwisePlan depthwise_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// Packs weights as tiles read them; and fills in their format and size, which are the same for every instruction set.
void depthwise_pack(const DepthwisePlan &plan, const polyconv_layer &layer, const void *raw, void *packed);
void depthwise_format(const DepthwisePlan &plan, const polyconv_layer &layer, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> depthwise_create(const polyconv_request &request, Isa isa);

} // namespace polyconv::cpu
