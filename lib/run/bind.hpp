// bind.hpp - a plan's steps with one set of pointers, and whatever their kernels made for these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"

struct polyconv_bound {
  struct BoundStep {
    polyconv::Step step; // a copy: the plan may go
    polyconv_arguments arguments;
  };
  std::vector<BoundStep> steps;
  polyconv::Observer observer;
  const polyconv_device *device = nullptr; // of polyconv_run_bound's stream

  // `from`: pointers in the caller's roles, checked. Throws Failure, having given back what was made.
  polyconv_bound(const std::vector<polyconv::Step> &plan_steps, polyconv_arguments &from,
                 const polyconv::Observer &watching = {});
  ~polyconv_bound();
  polyconv_bound(const polyconv_bound &) = delete;
  polyconv_bound &operator=(const polyconv_bound &) = delete;

  polyconv_status run(void *stream) const noexcept;

 private:
  void bind(const polyconv::Step &step, polyconv_arguments &from);
  void unbind() noexcept;
};
