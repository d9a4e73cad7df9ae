// narrow_driver.hpp - the CPU-independent half of weight gradients of narrow groups. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/product/narrow_plan.hpp"

namespace polyconv::cpu {

// sum: one split, one part of the vectors. join: the splits' sums of one vector become its weights.
struct NarrowTasks {
  void (*sum)(const NarrowPlan &plan, const NarrowRun &run, const NarrowShare &share);
  void (*join)(const NarrowPlan &plan, const NarrowRun &run, int64_t vector);
};

bool narrow_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> narrow_create(const polyconv_request &request, Isa isa, const NarrowTasks &tasks);

} // namespace polyconv::cpu
