// parallel.hpp - the threads of a CPU plan, owned by its kernel instances and made at plan time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>
#include <polyconv/sdk/float_mode.hpp>

#include <atomic>
#include <memory>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define POLYCONV_SDK_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define POLYCONV_SDK_THREAD_SANITIZER
#endif
#if defined(POLYCONV_SDK_THREAD_SANITIZER)
extern "C" void __tsan_acquire(void *address); // NOLINT(bugprone-reserved-identifier): the sanitizer's own
extern "C" void __tsan_release(void *address); // NOLINT(bugprone-reserved-identifier)
#endif

namespace polyconv::sdk {

// ThreadSanitizer cannot see how libgomp, oneTBB or a caller's pool hand work over and wait for it: they are not built
// with it. These say it in its terms, once for all runtimes, so that what it reports are races of our own.
class Handover {
 public:
  void give() { release(&given_); }
  void take() { acquire(&given_); }
  void give_back() { release(&returned_); }
  void take_back() { acquire(&returned_); }

 private:
#if defined(POLYCONV_SDK_THREAD_SANITIZER)
  static void acquire(char *address) {
    __tsan_acquire(address);
  }
  static void release(char *address) {
    __tsan_release(address);
  }
#else
  static void acquire(char *) {}
  static void release(char *) {}
#endif
  char given_ = 0, returned_ = 0;
};

inline constexpr int64_t kMostThreads = 1024; // of a plan

class Parallel {
 public:
  explicit Parallel(int threads) : threads_(threads) {}
  virtual ~Parallel() = default;
  Parallel(const Parallel &) = delete;
  Parallel &operator=(const Parallel &) = delete;

  // The number of tasks to cut work into: one task is one thread's whole share, with its own scratch.
  int threads() const { return threads_; }

  // Calls body(i) for every i in [0, tasks), concurrently, and returns when all are done. Does not allocate, and
  // may be called from several threads at once. The calling thread works too, but may find every task taken. Every task
  // runs in the default mode of floating point.
  template <class Body>
  void operator()(int64_t tasks, const Body &body) const {
    if (tasks <= 0) return;
    if (tasks == 1) return body(0);
    struct Work {
      const Body &body;
      Handover handover;
    } work{body, {}};
    work.handover.give();
    run(
        tasks,
        [](void *context, int64_t i) {
          Work &shared = *static_cast<Work *>(context);
          shared.handover.take();
          const DefaultFloatMode mode;
          shared.body(i);
          shared.handover.give_back();
        },
        &work);
    work.handover.take_back();
  }

 protected:
  virtual void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const = 0;

 private:
  int threads_;
};

// A plan's tasks on its threads; on the calling one where it has none, because one task is enough.
template <class Body>
void run_tasks(const std::unique_ptr<Parallel> &parallel, int64_t tasks, const Body &body) {
  if (parallel) return (*parallel)(tasks, body);
  for (int64_t i = 0; i < tasks; ++i) body(i);
}

// Every task's share in pieces: body(task, share, piece, before) once for each; `before` is the piece of this share
// that the task did before, -1 for none. A task does those of its own share, in order, and then what is left of the
// others', so that no thread waits for more than a piece of a slower one. Who does a piece differs from run to run:
// nothing but what lies in scratch may depend on `task` and `before`.
template <class Body>
void run_pieces(const std::unique_ptr<Parallel> &parallel, int64_t tasks, int64_t pieces, const Body &body) {
  if (pieces == 1 || tasks > kMostThreads) {
    return run_tasks(parallel, tasks, [&](int64_t task) {
      for (int64_t piece = 0; piece < pieces; ++piece) body(task, task, piece, piece - 1);
    });
  }
  std::atomic<int64_t> next[kMostThreads]; // piece of each share; run allocates nothing
  for (int64_t share = 0; share < tasks; ++share) next[share].store(0, std::memory_order_relaxed);
  run_tasks(parallel, tasks, [&](int64_t task) {
    for (int64_t i = 0; i < tasks; ++i) {
      const int64_t share = (task + i) % tasks;
      for (int64_t before = -1; next[share].load(std::memory_order_relaxed) < pieces;) {
        const int64_t piece = next[share].fetch_add(1, std::memory_order_relaxed);
        if (piece < pieces) body(task, share, piece, before);
        before = piece;
      }
    }
  });
}

// The caller's pool, and only it.
class CallerParallel final : public Parallel {
 public:
  explicit CallerParallel(const polyconv_policy &policy)
      : Parallel(policy.threads), parallel_for_(policy.parallel_for), context_(policy.parallel_for_context) {}

 protected:
  void run(int64_t tasks, void (*task)(void *, int64_t), void *context) const override {
    parallel_for_(context_, tasks, task, context);
  }

 private:
  polyconv_parallel_for parallel_for_;
  void *context_;
};

// Defined once by every CPU backend: CallerParallel where the policy brings a pool, else the backend's own threads.
std::unique_ptr<Parallel> make_parallel(const polyconv_policy &policy);

// Share i of [0, total) cut into `parts` whole pieces that differ by at most one.
struct Share {
  int64_t begin, end;
};
inline Share share(int64_t total, int64_t parts, int64_t i) {
  const int64_t size = total / parts, rest = total % parts;
  const int64_t begin = i * size + (i < rest ? i : rest);
  return {begin, begin + size + (i < rest ? 1 : 0)};
}

} // namespace polyconv::sdk
