// driver.hpp - the CPU-independent half of the shifted kernel. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/shifted/plan.hpp"

namespace polyconv::cpu {

typedef void (*ShiftedTask)(const ShiftedPlan &plan, const ShiftedRun &run, const GridShare &share);

bool shifted_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> shifted_create(const polyconv_request &request, Isa isa, ShiftedTask task);

} // namespace polyconv::cpu
