// parallel_tbb.cpp - a plan's threads under oneTBB: an arena lent at plan time, which the scheduler fills with its
// workers while the plan runs.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/deal.hpp>
#include <polyconv/sdk/system_threads.hpp>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace polyconv::sdk {
namespace {

// The tasks of one run. A thread that finds no more of them waits for the others: a worker that finds nothing to do
// goes to sleep within microseconds, and waking it would hold up the next run.
class Round {
 public:
  Round(int64_t tasks, void (*task)(void *, int64_t), void *context) : deal_(tasks, task, context) {}

  // May be called by any threads, any number of times; returns when nothing is left to take.
  void take_part(int64_t place) {
    using Clock = std::chrono::steady_clock;
    done_.fetch_add(deal_.take_part(place), std::memory_order_release);
    const Clock::time_point patient_until = Clock::now() + kPatience;
    while (done_.load(std::memory_order_acquire) < deal_.places() && Clock::now() < patient_until)
      std::this_thread::yield();
  }

 private:
  static constexpr std::chrono::milliseconds kPatience{4};

  Deal deal_;
  std::atomic<int64_t> done_{0};
};

using Arena = oneapi::tbb::task_arena;

// Arenas for plans, which come back from plans that are destroyed: oneTBB loses some KiB with each that ever ran.
class Arenas {
 public:
  // NULL where one thread is all there is.
  static std::unique_ptr<Arena> lend(int threads) {
    Arenas &all = arenas();
    const std::lock_guard<std::mutex> lock(all.mutex_);
    const int size = all.allowance_.of(std::min(threads, workers_and_caller()));
    if (size == 1) return nullptr;
    std::vector<std::unique_ptr<Arena>> &idle = all.idle_[size];
    if (idle.empty()) {
      auto arena = std::make_unique<Arena>(size);
      arena->initialize();
      return arena;
    }
    std::unique_ptr<Arena> arena = std::move(idle.back());
    idle.pop_back();
    return arena;
  }

  static void give_back(std::unique_ptr<Arena> arena) noexcept {
    Arenas &all = arenas();
    const std::lock_guard<std::mutex> lock(all.mutex_);
    try {
      all.idle_[arena->max_concurrency()].push_back(std::move(arena));
    } catch (const std::bad_alloc &) {
      // then it is destroyed
    }
  }

 private:
  static Arenas &arenas() {
    static Arenas &made = *new Arenas; // never destroyed: plans may still be while the process ends
    return made;
  }

  // More than oneTBB has workers for makes it print a warning; tasks beyond the arena's threads queue up anyway.
  static int workers_and_caller() {
    using oneapi::tbb::global_control;
    return static_cast<int>(
        std::min<size_t>(global_control::active_value(global_control::max_allowed_parallelism), kMostThreads));
  }

  std::mutex mutex_;
  Allowance allowance_; // what the runtime cannot get it takes for an error, in the midst of a run
  std::map<int, std::vector<std::unique_ptr<Arena>>> idle_; // by size
};

class TbbParallel final : public Parallel {
 public:
  explicit TbbParallel(int threads) : Parallel(threads) {
    if (threads == 1 || LostThreads::lost()) return;
    LostThreads::there_are_some();
    arena_ = Arenas::lend(threads);
  }
  ~TbbParallel() override {
    if (!arena_) return;
    if (LostThreads::lost())
      static_cast<void>(arena_.release()); // the parent's: its threads, and perhaps its lock
    else
      Arenas::give_back(std::move(arena_));
  }

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    if (!arena_ || LostThreads::lost()) {
      for (int64_t i = 0; i < tasks; ++i) task(context, i);
      return;
    }
    Round round(tasks, task, context);
    arena_->execute([&] {
      const int64_t takers = std::min<int64_t>(tasks, arena_->max_concurrency());
      oneapi::tbb::parallel_for(
          int64_t{0}, takers, [&](int64_t) { round.take_part(oneapi::tbb::this_task_arena::current_thread_index()); },
          oneapi::tbb::static_partitioner());
    });
  }

 private:
  std::unique_ptr<Arena> arena_; // execute may be called from several threads at once
};

} // namespace

std::unique_ptr<Parallel> make_parallel(const polyconv_policy &policy) {
  if (policy.parallel_for) return std::make_unique<CallerParallel>(policy);
  return std::make_unique<TbbParallel>(policy.threads);
}

} // namespace polyconv::sdk
