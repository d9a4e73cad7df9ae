// ring_driver.hpp - the CPU-independent half of depthwise convolution by rings of source rows. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"
#include "cpu/depthwise/ring_plan.hpp"

namespace polyconv::cpu {

// Whether the layer, forward and of one channel a group and one filter a channel, goes by rings: in either layout,
// within the workspace and, channels first, quicker than the filter of planes where that takes it too.
bool ring_pays(const polyconv_request &request, Isa isa);

// Sizes, shares and the estimate, without tables.
RingPlan ring_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// Fills the offer, or rejects pooling and a workspace beyond the limit.
bool ring_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> ring_create(const polyconv_request &request, Isa isa);

} // namespace polyconv::cpu
