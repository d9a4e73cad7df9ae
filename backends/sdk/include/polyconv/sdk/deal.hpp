// deal.hpp - the tasks of one run, dealt out to whichever threads come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/parallel.hpp>

#include <algorithm>

namespace polyconv::sdk {

// Each task is done once, by one of the threads that take part. A thread begins with the task of its own place, which
// it had in the run before and whose data its caches may hold, and goes on with what nobody took yet.
class Deal {
 public:
  Deal() = default;
  Deal(int64_t tasks, void (*task)(void *, int64_t), void *context) { begin(tasks, task, context); }

  // Not while threads take part in what was dealt out before.
  void begin(int64_t tasks, void (*task)(void *, int64_t), void *context) {
    tasks_ = tasks, task_ = task, context_ = context;
    places_ = std::min(tasks, kMostThreads);
    for (int64_t word = 0; word * kBits < places_; ++word) taken_[word].store(0, std::memory_order_relaxed);
  }

  // Does tasks until all are taken, though not all done; how many places of places() it did.
  int64_t take_part(int64_t place) {
    int64_t done = 0;
    for (int64_t i = 0; i < places_; ++i) done += take((place + i) % places_);
    return done;
  }

  int64_t places() const { return places_; } // task i is at place i % kMostThreads

 private:
  static constexpr int64_t kBits = 64;

  bool take(int64_t place) {
    std::atomic<uint64_t> &taken = taken_[place / kBits];
    const uint64_t bit = uint64_t{1} << place % kBits;
    if (taken.load(std::memory_order_relaxed) & bit || taken.fetch_or(bit, std::memory_order_relaxed) & bit)
      return false;
    for (int64_t i = place; i < tasks_; i += kMostThreads) task_(context_, i);
    return true;
  }

  int64_t tasks_ = 0, places_ = 0;
  void (*task_)(void *, int64_t) = nullptr;
  void *context_ = nullptr;
  std::atomic<uint64_t> taken_[kMostThreads / kBits] = {};
};

} // namespace polyconv::sdk
