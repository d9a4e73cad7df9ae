// weights_driver.hpp - the CPU-independent half of the weight gradients. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/direct/weights_plan.hpp"
#include "cpu/isa.hpp"

namespace polyconv::cpu {

struct WeightsTasks {
  void (*sum)(const WeightsPlan &plan, const WeightsRun &run, const WeightsShare &share);
  void (*join)(const WeightsPlan &plan, const WeightsRun &run, int64_t piece, void *partial);
};

bool weights_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> weights_create(const polyconv_request &request, Isa isa, const WeightsTasks &tasks);

} // namespace polyconv::cpu
