// bind.cpp - binds pointers once, runs many times.
// SPDX-License-Identifier: Apache-2.0
#include "run/bind.hpp"

#include "registry/host.hpp"
#include "run/checks.hpp"

using namespace polyconv;

polyconv_bound::polyconv_bound(const std::vector<Step> &plan_steps, polyconv_arguments &from, const Observer &watching)
    : observer(watching) {
  steps.reserve(plan_steps.size());
  try {
    for (const Step &step : plan_steps) bind(step, from);
  } catch (...) {
    unbind();
    throw;
  }
}

void polyconv_bound::bind(const Step &step, polyconv_arguments &from) {
  BoundStep bound = {step, {}};
  fill_arguments(step, from, &bound.arguments);
  if (step.kernel->bind != nullptr) {
    void *made = nullptr;
    const polyconv_status status = ask_backend(
        step.name, "bind", [&] { return step.kernel->bind(step.kernel, step.instance, &bound.arguments, &made); });
    if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
    bound.arguments.bound = made;
  }
  steps.push_back(std::move(bound)); // there is room: it cannot fail and lose what was made
}

polyconv_bound::~polyconv_bound() {
  unbind();
}

void polyconv_bound::unbind() noexcept {
  for (const BoundStep &bound : steps) {
    const polyconv_kernel *kernel = bound.step.kernel;
    if (bound.arguments.bound == nullptr || kernel->unbind == nullptr) continue;
    tell_backend(bound.step.name, "unbind",
                 [&] { kernel->unbind(kernel, bound.step.instance, bound.arguments.bound); });
  }
}

polyconv_status polyconv_bound::run(void *stream) const noexcept {
  observer.before_run(stream);
  int32_t number = 0;
  for (const BoundStep &bound : steps) {
    if (const polyconv_status status = run_step(bound.step, bound.arguments, stream)) return status;
    observer.after_step(number++, bound.step.name, stream);
  }
  return POLYCONV_SUCCESS;
}

extern "C" {

polyconv_status polyconv_bind(const polyconv_plan *plan, const polyconv_buffers *buffers, polyconv_bound **bound) {
  if (bound == nullptr) return fail(POLYCONV_INVALID_ARGUMENT, "bound is NULL, expected where to put the bound plan");
  polyconv_arguments from;
  if (const polyconv_status status = gather(plan, buffers, &from)) return status;
  return guarded([&] {
    check_buffers(*plan, from, Memory::OfDevice);
    const std::vector<Step> nothing;
    auto made = std::make_unique<polyconv_bound>(plan->nothing_to_run ? nothing : plan->steps, from, plan->observer());
    made->device = plan->device;
    *bound = made.release();
  });
}

polyconv_status polyconv_run_bound(const polyconv_bound *bound, void *stream) {
  if (bound == nullptr) return fail(POLYCONV_INVALID_ARGUMENT, "bound is NULL, expected a bound plan");
  if (const polyconv_status status = check_stream(*bound->device, stream)) return status;
  return bound->run(stream);
}

void polyconv_bound_destroy(polyconv_bound *bound) {
  delete bound;
}

} // extern "C"
