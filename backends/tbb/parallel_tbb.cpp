// parallel_tbb.cpp - a plan's threads under oneTBB: an arena made at plan time, which the scheduler fills with its
// workers while the plan runs.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/parallel.hpp>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

namespace polyconv::sdk {
namespace {

class TbbParallel final : public Parallel {
 public:
  explicit TbbParallel(int threads) : Parallel(threads), arena_(arena_size(threads)) { arena_.initialize(); }

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    arena_.execute([=] {
      oneapi::tbb::parallel_for(
          int64_t{0}, tasks, [=](int64_t i) { task(context, i); }, oneapi::tbb::static_partitioner());
    });
  }

 private:
  // More than oneTBB has workers for makes it print a warning; tasks beyond the arena's threads queue up anyway.
  static int arena_size(int threads) {
    using oneapi::tbb::global_control;
    const size_t allowed = global_control::active_value(global_control::max_allowed_parallelism);
    return threads < static_cast<int>(allowed) ? threads : static_cast<int>(allowed);
  }

  mutable oneapi::tbb::task_arena arena_; // execute may be called from several threads at once
};

} // namespace

std::unique_ptr<Parallel> make_parallel(const polyconv_policy &policy) {
  if (policy.parallel_for) return std::make_unique<CallerParallel>(policy);
  return std::make_unique<TbbParallel>(policy.threads);
}

} // namespace polyconv::sdk
