// execute.hpp - one plan of a chain run on guarded, poisoned buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <polyconv/sdk/check.hpp>

#include "guarded.hpp"
#include "problems.hpp"

namespace polyconv::check {

struct PlanDeleter {
  void operator()(polyconv_plan *plan) const { polyconv_plan_destroy(plan); }
};
using Plan = std::unique_ptr<polyconv_plan, PlanDeleter>;

// Throws CallFailed.
Plan make_plan(const polyconv_device *device, const std::vector<polyconv_problem> &problems,
               const polyconv_options &options);
polyconv_plan_info info_of(const polyconv_plan *plan);

// Something that a run must not do: a sentence for people.
struct Misbehaved {
  std::string sentence;
};

// Runs the plan once for each poison byte on the data, and fills the values of every written tensor with what was
// found. Throws CallFailed, and Misbehaved where a guard zone, a gap between strided elements, a tensor that is only
// read or packed weights have changed, or where two runs differ although `same_bits` says that they must not.
void execute(const polyconv_device *device, const polyconv_plan *plan, int32_t layers, const polyconv_options &options,
             std::vector<Tensor> &tensors, const std::vector<uint8_t> &poisons, bool same_bits,
             const Placement &placement = {});

// The reference backend's answer for one dense problem on the CPU, in every written tensor. Throws CallFailed.
void run_reference(const polyconv_problem &problem, int32_t save, std::vector<Tensor> &tensors);

} // namespace polyconv::check
