// crew.hpp - threads of our own that all plans of a plug-in share, from the standard library alone. They only ever
// help: the caller does every task that nobody else has begun, so that workers who are late, busy or missing cost speed
// and nothing else. They wait briefly awake and then asleep, and leave a processor at once that somebody else wants.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/deal.hpp>
#include <polyconv/sdk/system_threads.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace polyconv::sdk {

using Clock = std::chrono::steady_clock;

// Looks again and again whether done(), for at most `patience`; less where two looks lie so far apart that the system
// must have given this processor to another thread, which spinning would hold up. Returns done().
template <class Done>
bool spin(const Done &done, std::chrono::nanoseconds patience) {
  constexpr int kLooks = 16; // between two at the clock: a microsecond or so
  constexpr std::chrono::microseconds kInterrupted{40};
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point last = begin;;) {
    for (int look = 0; look < kLooks; ++look) {
      if (done()) return true;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    const Clock::time_point now = Clock::now();
    if (now - begin > patience || now - last > kInterrupted) return done();
    last = now;
  }
}

// The same, while whoever else wants this processor has it first.
template <class Done>
bool yield(const Done &done, std::chrono::nanoseconds patience) {
  for (const Clock::time_point until = Clock::now() + patience; Clock::now() < until; std::this_thread::yield())
    if (done()) return true;
  return done();
}

class Crew {
 public:
  // The crew of this process, with as many workers as a plan of so many threads can use, or as the system gives. NULL
  // where there is no memory for one.
  static Crew *for_plan(int threads) noexcept {
    Crew *crew = current().load(std::memory_order_acquire);
    if (crew == nullptr) {
      Crew *const fresh = new (std::nothrow) Crew;
      if (fresh == nullptr) return nullptr;
      if (current().compare_exchange_strong(crew, fresh))
        crew = fresh;
      else
        delete fresh;
    }
    crew->grow(std::min<int>(threads, kMostThreads) - 1);
    return crew;
  }

  // NULL in a forked child until it makes a plan of its own: its parent's workers are not there.
  static Crew *here() { return current().load(std::memory_order_acquire); }

  // Does all tasks, on the calling thread and at most threads - 1 workers. Any number of threads may call it at once,
  // tasks too. Neither allocates nor throws.
  void run(int threads, int64_t tasks, void (*task)(void *, int64_t), void *context) noexcept {
    Job *const job = claim();
    if (job == nullptr) { // more callers than jobs: each has a processor's work by itself
      for (int64_t i = 0; i < tasks; ++i) task(context, i);
      return;
    }
    job->deal.begin(tasks, task, context);
    job->open.store(true, std::memory_order_seq_cst);
    job->wanted.store(static_cast<int>(std::min<int64_t>(threads, tasks)) - 1, std::memory_order_seq_cst);
    posted_.fetch_add(1, std::memory_order_seq_cst);
    wake_for(*job);
    job->deal.take_part(0);
    finish(*job);
  }

 private:
  static constexpr int kMostJobs = 64; // of callers at once
  static constexpr int kBits = 64;
  static constexpr int kWakes = 2; // by each thread: those woken wake others
  // Until a worker without work gives its processor to others, and until it goes to sleep: one that is woken is put
  // where its caller runs and shares that processor with it for milliseconds, where none is idle.
  static constexpr std::chrono::microseconds kAwake{100}, kDrowsy{2000};
  // Until a caller that waits for its helpers' last tasks goes to sleep: the processor that it leaves idle can then
  // take a helper that was put off another.
  static constexpr std::chrono::microseconds kLinger{50};

  // One run. A worker counts itself among the helpers, looks whether the job is open, and only then reads the deal; the
  // caller closes the job and waits until no helper is left. Its memory is never given back, so that a worker that
  // comes late finds a closed job, or another that it may help as well.
  struct alignas(64) Job {
    std::atomic<bool> claimed{false};
    std::atomic<bool> open{false};
    std::atomic<bool> waiting{false}; // the caller sleeps until helpers is 0
    std::atomic<int> wanted{0};       // workers that may still come
    std::atomic<int> helpers{0};
    alignas(64) Deal deal;
    std::mutex mutex;
    std::condition_variable left;
  };

  struct Worker {
    std::mutex mutex;
    std::condition_variable called;
    bool awake = true; // guarded by the mutex
    Place place;       // likewise
  };

  static std::atomic<Crew *> &current() {
    static std::atomic<Crew *> crew{nullptr};
    return crew;
  }
  // The parent's crew stays as it was when fork came, its locks perhaps held: nobody touches it again.
  static void forked() { lost() = current().exchange(nullptr); }
  static Crew *&lost() {
    static Crew *crew = nullptr;
    return crew;
  }
  inline static const bool registered_ = on_fork(forked);

  // ---- the caller's side

  Job *claim() {
    for (int i = 0; i < kMostJobs; ++i) {
      Job &job = jobs_[i];
      if (job.claimed.load(std::memory_order_relaxed) || job.claimed.exchange(true, std::memory_order_acquire))
        continue;
      for (int used = used_.load(std::memory_order_relaxed); used <= i;)
        if (used_.compare_exchange_weak(used, i + 1)) break;
      return &job;
    }
    return nullptr;
  }

  void finish(Job &job) {
    job.wanted.store(0, std::memory_order_relaxed);
    job.open.store(false, std::memory_order_seq_cst);
    const auto alone = [&job] { return job.helpers.load(std::memory_order_seq_cst) == 0; };
    if (!spin(alone, kLinger)) {
      job.waiting.store(true, std::memory_order_seq_cst);
      std::unique_lock<std::mutex> lock(job.mutex);
      job.left.wait(lock, alone);
      job.waiting.store(false, std::memory_order_relaxed);
    }
    job.claimed.store(false, std::memory_order_release);
  }

  // ---- sleeping and waking

  // Calls sleeping workers for a job, unless enough look out for it.
  void wake_for(Job &job) {
    const int missing = job.wanted.load(std::memory_order_relaxed) - awake_.load(std::memory_order_seq_cst);
    for (int wakes = std::min(missing, kWakes); wakes > 0; --wakes)
      if (!wake_one()) return;
  }

  bool wake_one() {
    const int workers = workers_made_.load(std::memory_order_acquire);
    for (int word = 0; word * kBits < workers; ++word) {
      for (uint64_t asleep = asleep_[word].load(std::memory_order_seq_cst); asleep != 0;) {
        const uint64_t bit = asleep & (~asleep + 1);
        if (!asleep_[word].compare_exchange_weak(asleep, asleep & ~bit)) continue;
        Worker &worker = *workers_[word * kBits + __builtin_ctzll(bit)];
        {
          const std::lock_guard<std::mutex> lock(worker.mutex);
          worker.place.keep_off_caller();
          worker.awake = true;
        }
        worker.called.notify_one();
        return true;
      }
    }
    return false;
  }

  // Until somebody calls, unless there was news since `seen`.
  void sleep(int index, uint32_t seen) {
    Worker &self = *workers_[index];
    std::atomic<uint64_t> &asleep = asleep_[index / kBits];
    const uint64_t bit = uint64_t{1} << index % kBits;
    std::unique_lock<std::mutex> lock(self.mutex);
    self.awake = false;
    asleep.fetch_or(bit, std::memory_order_seq_cst);
    if (posted_.load(std::memory_order_seq_cst) != seen && (asleep.fetch_and(~bit) & bit) != 0) return;
    self.called.wait(lock, [&self] { return self.awake; });
    self.place.settle();
  }

  // ---- the worker's side

  void grow(int workers) noexcept {
    const std::lock_guard<std::mutex> lock(growing_);
    for (int i = workers_made_.load(std::memory_order_relaxed); i < workers; ++i) {
      try {
        if (!workers_[i]) workers_[i] = std::make_unique<Worker>();
        std::thread([this, i] { work(i); }).detach();
      } catch (...) {
        return; // the system gives no more: callers do what is left
      }
      workers_made_.store(i + 1, std::memory_order_release);
    }
  }

  [[noreturn]] void work(int index) {
    workers_[index]->place.take();
    for (;;) {
      const uint32_t seen = posted_.load(std::memory_order_seq_cst);
      if (help_all(index)) continue;
      awake_.fetch_add(1, std::memory_order_seq_cst);
      const auto is_news = [&] { return posted_.load(std::memory_order_relaxed) != seen; };
      const bool news = spin(is_news, kAwake) || yield(is_news, kDrowsy);
      awake_.fetch_sub(1, std::memory_order_seq_cst);
      if (!news) sleep(index, seen);
    }
  }

  bool help_all(int index) {
    bool helped = false;
    const int used = used_.load(std::memory_order_acquire);
    for (int i = 0; i < used; ++i) helped = help(jobs_[i], index) || helped;
    return helped;
  }

  bool help(Job &job, int index) {
    int wanted = job.wanted.load(std::memory_order_relaxed);
    do {
      if (wanted <= 0) return false;
    } while (!job.wanted.compare_exchange_weak(wanted, wanted - 1, std::memory_order_seq_cst));
    job.helpers.fetch_add(1, std::memory_order_seq_cst);
    if (job.open.load(std::memory_order_seq_cst)) {
      wake_for(job);
      job.deal.take_part(index + 1);
    }
    if (job.helpers.fetch_sub(1, std::memory_order_seq_cst) == 1 && job.waiting.load(std::memory_order_seq_cst)) {
      job.mutex.lock(); // the caller is either asleep by now or yet to look
      job.mutex.unlock();
      job.left.notify_all();
    }
    return true;
  }

  Job jobs_[kMostJobs];
  std::atomic<int> used_{0};                    // jobs_ that were ever claimed: the first ones
  alignas(64) std::atomic<uint32_t> posted_{0}; // jobs so far: what workers look out for
  alignas(64) std::atomic<int> awake_{0};       // workers that do
  std::atomic<uint64_t> asleep_[kMostThreads / kBits] = {};
  std::mutex growing_;
  std::atomic<int> workers_made_{0};
  std::unique_ptr<Worker> workers_[kMostThreads];
};

} // namespace polyconv::sdk
