// plan.hpp - separable filters are planned as filters over planes (plane/plan.hpp) whose weights are factors along H
// and along W: PlanePlan::passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/plane/plan.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, separable_task, const PlanePlan &plan, const PlaneRun &run, const ItemShare &share)

} // namespace polyconv::cpu
