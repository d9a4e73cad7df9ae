// weights_driver.hpp - the CPU-independent half of the pointwise_weights kernel. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/pointwise/weights_plan.hpp"

namespace polyconv::cpu {

typedef void (*PointWeightsTask)(const PointWeightsPlan &plan, const PointWeightsRun &run, const GridShare &share);

bool point_weights_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> point_weights_create(const polyconv_request &request, Isa isa, PointWeightsTask task);

} // namespace polyconv::cpu
