// driver.hpp - the CPU-independent half of the lowered kernel: geometry, offer, packed weights, instance. Driver side
// only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/lowered/plan.hpp"

namespace polyconv::cpu {

typedef void (*LoweredTask)(const LoweredPlan &plan, const LoweredRun &run, const GridShare &share);

bool lowered_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> lowered_create(const polyconv_request &request, Isa isa, LoweredTask task);

} // namespace polyconv::cpu
