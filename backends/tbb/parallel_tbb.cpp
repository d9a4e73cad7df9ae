// parallel_tbb.cpp - a plan's threads under oneTBB: an arena made at plan time, which the scheduler fills with its
// workers while the plan runs.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/parallel.hpp>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace polyconv::sdk {
namespace {

// The tasks of one run, and who took which. A thread takes the task of its own place in the arena, which it took in the
// run before, then what nobody took yet, and then waits for the others: a worker that finds nothing to do goes to sleep
// within microseconds, and waking it would hold up the next run.
class Round {
 public:
  Round(int64_t tasks, void (*task)(void *, int64_t), void *context) : tasks_(tasks), task_(task), context_(context) {}

  // May be called by any threads, any number of times; returns when nothing is left to take.
  void take_part(int64_t place) {
    const int64_t all = std::min(tasks_, kMostThreads);
    for (int64_t i = 0; i < all; ++i) take((place + i) % all);
    const Clock::time_point patient_until = Clock::now() + kPatience;
    while (done_.load(std::memory_order_acquire) < all && Clock::now() < patient_until) std::this_thread::yield();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kBits = 64;
  static constexpr std::chrono::milliseconds kPatience{4};

  // Does what belongs to one place, unless somebody did.
  void take(int64_t place) {
    std::atomic<uint64_t> &taken = taken_[place / kBits];
    const uint64_t bit = uint64_t{1} << place % kBits;
    if (taken.load(std::memory_order_relaxed) & bit || taken.fetch_or(bit, std::memory_order_relaxed) & bit) return;
    for (int64_t i = place; i < tasks_; i += kMostThreads) task_(context_, i);
    done_.fetch_add(1, std::memory_order_release);
  }

  const int64_t tasks_;
  void (*const task_)(void *, int64_t);
  void *const context_;
  std::atomic<uint64_t> taken_[kMostThreads / kBits] = {};
  std::atomic<int64_t> done_{0};
};

class TbbParallel final : public Parallel {
 public:
  explicit TbbParallel(int threads) : Parallel(threads), arena_(arena_size(threads)) { arena_.initialize(); }

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    Round round(tasks, task, context);
    arena_.execute([&] {
      const int64_t takers = std::min<int64_t>(tasks, arena_.max_concurrency());
      oneapi::tbb::parallel_for(
          int64_t{0}, takers, [&](int64_t) { round.take_part(oneapi::tbb::this_task_arena::current_thread_index()); },
          oneapi::tbb::static_partitioner());
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
