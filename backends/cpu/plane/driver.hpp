// driver.hpp - the CPU-independent half of filters over planes. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/plane/plan.hpp"

namespace polyconv::cpu {

typedef void (*PlaneTask)(const PlanePlan &plan, const PlaneRun &run, const PlaneShare &share);

// True where the layer filters single channels (forward, float and image rows, planes or interleaved pixels); else
// rejected with a reason. The request is already known to be one layer.
bool plane_takes(const polyconv_layer &layer, Isa isa, sdk::Offer &offer);

// Fills the offer, or rejects pooling and a workspace beyond the limit.
bool plane_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> plane_create(const polyconv_request &request, Isa isa, PlaneTask task);

} // namespace polyconv::cpu
