// driver.hpp - the CPU-independent half of the pointwise kernel. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/pointwise/plan.hpp"

namespace polyconv::cpu {

typedef void (*PointwiseTask)(const PointwisePlan &plan, const PointwiseArguments &arguments, const GridShare &share);

bool pointwise_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> pointwise_create(const polyconv_request &request, Isa isa, PointwiseTask task);

} // namespace polyconv::cpu
