// plan.cpp - the extern "C" wall: plans.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"
#include "base/sized.hpp"
#include "registry/device.hpp"
#include "tune/tune.hpp"

using namespace polyconv;

extern "C" {

polyconv_status polyconv_plan_create(const polyconv_device *device, const polyconv_problem *problems, int32_t count,
                                     const polyconv_options *options, polyconv_plan **plan) {
  return guarded([&] {
    if (plan == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "plan is NULL, expected where to put the plan");
    const polyconv_device &where = device_or_cpu(device);
    *plan = make_plan(where, problems, count, read_options(options, where), tuner()).release();
  });
}

void polyconv_plan_destroy(polyconv_plan *plan) {
  delete plan;
}

polyconv_status polyconv_plan_get_info(const polyconv_plan *plan, polyconv_plan_info *info) {
  return guarded([&] {
    if (plan == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "plan is NULL, expected a plan");
    polyconv_plan_info filled = {};
    filled.kernel = plan->kernel_names.c_str();
    filled.math = plan->math;
    filled.workspace_bytes = plan->workspace_bytes;
    filled.estimate_us = plan->estimate_us;
    filled.step_count = static_cast<int32_t>(plan->steps.size());
    filled.fallback = plan->fallback ? 1 : 0;
    filled.threads = plan->options.policy.threads;
    filled.needs_bind = plan->needs_bind ? 1 : 0;
    filled.transform = plan->transform ? 1 : 0;
    filled.measured_on = plan->provenance.day.c_str();
    filled.measured_elsewhere = plan->provenance.elsewhere ? 1 : 0;
    fill_sized(info, filled, offsetof(polyconv_plan_info, kernel), "info");
  });
}

} // extern "C"
