// weights_driver.hpp - the CPU-independent half of depthwise weight gradients. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/weights_plan.hpp"
#include "cpu/isa.hpp"

namespace polyconv::cpu {

struct DepthwiseWeightsTasks {
  void (*sum)(const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run, const DepthwiseWeightsShare &share);
  void (*join)(const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run, int64_t channel);
};

bool depthwise_weights_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> depthwise_weights_create(const polyconv_request &request, Isa isa,
                                                        const DepthwiseWeightsTasks &tasks);

} // namespace polyconv::cpu
