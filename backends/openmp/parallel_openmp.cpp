// parallel_openmp.cpp - a plan's threads under OpenMP. The runtime makes its threads at the first parallel region and
// keeps them, so a plan owns none.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/parallel.hpp>

namespace polyconv::sdk {
namespace {

class OpenMpParallel final : public Parallel {
 public:
  using Parallel::Parallel;

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    const int team = tasks < threads() ? static_cast<int>(tasks) : threads();
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
