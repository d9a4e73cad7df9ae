// parallel_std.hpp - a plan's threads from the standard library alone: the plug-in's crew.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/crew.hpp>

namespace polyconv::sdk {

// All plans of a plug-in share its workers, which the first plans start, as many as the largest of them asks for or the
// system gives. In a forked child plans of the parent run on the calling thread alone, until the child makes one.
class StdParallel final : public Parallel {
 public:
  explicit StdParallel(int threads) : Parallel(threads) {
    if (threads > 1) Crew::for_plan(threads);
  }

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    if (Crew *const crew = Crew::here()) return crew->run(threads(), tasks, task, context);
    for (int64_t i = 0; i < tasks; ++i) task(context, i);
  }
};

} // namespace polyconv::sdk
