// parallel_std.hpp - threads of our own for a plan, from the standard library alone: started when the kernel
// instance is made, asleep between runs, joined when it is destroyed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/parallel.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace polyconv::sdk {

// Several callers may run at once: each puts its job, which lives on its own stack, into a list, and works on it
// itself; idle workers help whichever job still has tasks to hand out. Nothing is allocated after construction.
class StdParallel final : public Parallel {
 public:
  explicit StdParallel(int threads) : Parallel(threads) {
    workers_.reserve(static_cast<size_t>(threads));
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error &) {
      // The system gives no more threads: those that started, or the caller alone, do all the tasks.
    }
  }

  ~StdParallel() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread &worker : workers_) worker.join();
  }

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    Job job{task, context, tasks};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      job.next = jobs_;
      jobs_ = &job;
    }
    wake_.notify_all();
    job.help();
    std::unique_lock<std::mutex> lock(mutex_);
    Job **link = &jobs_;
    while (*link != &job) link = &(*link)->next;
    *link = job.next; // nobody joins from here on; wait for those inside
    left_.wait(lock, [&job] { return job.helpers == 0; });
  }

 private:
  struct Job {
    void (*task)(void *, int64_t);
    void *context;
    int64_t tasks;
    std::atomic<int64_t> taken{0};
    int helpers = 0;     // workers inside help(); guarded by the pool's mutex
    Job *next = nullptr; // guarded by the pool's mutex

    Job(void (*t)(void *, int64_t), void *c, int64_t n) : task(t), context(c), tasks(n) {}
    bool open() const { return taken.load(std::memory_order_relaxed) < tasks; }
    void help() {
      for (int64_t i; (i = taken.fetch_add(1, std::memory_order_relaxed)) < tasks;) task(context, i);
    }
  };

  Job *open_job() const {
    Job *job = jobs_;
    while (job != nullptr && !job->open()) job = job->next;
    return job;
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      Job *job = nullptr;
      wake_.wait(lock, [&] { return stop_ || (job = open_job()) != nullptr; });
      if (stop_) return; // only when destroyed, and then no job is under way
      ++job->helpers;
      lock.unlock();
      job->help();
      lock.lock();
      if (--job->helpers == 0) left_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable wake_; // there is a job, or stop_
  mutable std::condition_variable left_; // some job has lost its last helper
  mutable Job *jobs_ = nullptr;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

} // namespace polyconv::sdk
