// driver.hpp - the CPU-independent half of the kernel for few filters. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/few/plan.hpp"
#include "cpu/isa.hpp"

namespace polyconv::cpu {

typedef void (*FewTask)(const FewPlan &plan, const FewRun &run, const FewShare &share);

bool few_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> few_create(const polyconv_request &request, Isa isa, FewTask task);

} // namespace polyconv::cpu
