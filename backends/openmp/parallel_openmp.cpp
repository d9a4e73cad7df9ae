// parallel_openmp.cpp - a plan's threads under OpenMP. The runtime makes its threads at a caller's first parallel
// region and keeps them, so a plan owns none.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/system_threads.hpp>

namespace polyconv::sdk {
namespace {

// The runtime keeps threads for each thread that opens parallel regions, and ends the process where it gets too few.
int team_of(int64_t wanted) {
  thread_local Allowance allowance;
  return allowance.of(static_cast<int>(wanted));
}

class OpenMpParallel final : public Parallel {
 public:
  using Parallel::Parallel;

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    // A forked child would wait for its parent's threads.
    const int team = LostThreads::lost() ? 1 : team_of(tasks < threads() ? tasks : threads());
    if (team == 1) {
      for (int64_t i = 0; i < tasks; ++i) task(context, i);
      return;
    }
    LostThreads::there_are_some();
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int64_t i = 0; i < tasks; ++i) task(context, i);
  }
};

} // namespace

std::unique_ptr<Parallel> make_parallel(const polyconv_policy &policy) {
  if (policy.parallel_for) return std::make_unique<CallerParallel>(policy);
  return std::make_unique<OpenMpParallel>(policy.threads);
}

} // namespace polyconv::sdk
