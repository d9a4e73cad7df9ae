// run.cpp - step 5 begins here: O(1) checks, then each kernel in turn with its pointers. Nothing in this file
// allocates, locks, throws or reads the environment.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"
#include "registry/host.hpp"
#include "run/checks.hpp"

namespace polyconv {

void fill_arguments(const Step &step, polyconv_arguments &from, polyconv_arguments *arguments) noexcept {
  *arguments = {};
  arguments->struct_size = sizeof *arguments;
  void *const *sources = slots_of(from);
  void **targets = slots_of(*arguments);
  for (const Wire &wire : step.wires) targets[wire.to] = static_cast<char *>(sources[wire.from]) + wire.offset;
}

polyconv_status run_step(const Step &step, const polyconv_arguments &arguments, void *stream) noexcept {
  return ask_backend(step.name, "run",
                     [&] { return step.kernel->run(step.kernel, step.instance, &arguments, stream); });
}

polyconv_status run_steps(const std::vector<Step> &steps, polyconv_arguments &from, const Observer &observer,
                          void *stream) noexcept {
  observer.before_run(stream);
  int32_t number = 0;
  for (const Step &step : steps) {
    polyconv_arguments arguments;
    fill_arguments(step, from, &arguments);
    if (const polyconv_status status = run_step(step, arguments, stream)) return status;
    observer.after_step(number++, step.name, stream);
  }
  return POLYCONV_SUCCESS;
}

} // namespace polyconv

extern "C" polyconv_status polyconv_run(const polyconv_plan *plan, const polyconv_buffers *buffers, void *stream) {
  using namespace polyconv;
  polyconv_arguments from;
  if (const polyconv_status status = gather(plan, buffers, &from)) return status;
  if (const polyconv_status status = check_stream(*plan->device, stream)) return status;
  if (plan->needs_bind)
    return fail(POLYCONV_INVALID_ARGUMENT, "plan holds %s, which needs polyconv_bind: expected polyconv_run_bound",
                plan->kernel_names.c_str());
  if (plan->options.values.checked != 0) {
    if (const polyconv_status status = guarded([&] { check_buffers(*plan, from, Memory::OfDevice); })) return status;
  }
  if (plan->nothing_to_run) return POLYCONV_SUCCESS;
  return run_steps(plan->steps, from, plan->observer(), stream);
}
