// system_threads.hpp - what the standard library's threads do not tell: that fork has left a process without them, and
// how many the system would give. The one header of the SDK that calls the operating system.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace polyconv::sdk {

// Has `in_child` called in every child that this process forks from now on, on its only thread. It may only set flags:
// any lock may be held by a thread that the child does not have.
inline bool on_fork([[maybe_unused]] void (*in_child)()) {
#if defined(_WIN32)
  return true; // nothing forks
#else
  return pthread_atfork(nullptr, nullptr, in_child) == 0;
#endif
}

// How many threads the system would give now, at most `wanted`: they are all started, and let go. For runtimes that end
// the process, or worse, where they get fewer than they ask for. Allocates nothing itself. Others may take what was
// free a moment ago, and threads take a moment to be gone: hence a few more than are wanted must be there.
inline int spare_threads(int wanted) {
#if defined(_WIN32)
  return wanted;
#else
  constexpr int kMost = 1024, kMore = 4;
  struct Gate {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
    bool open = false;
  } gate;
  const auto wait = [](void *argument) -> void * {
    Gate &at = *static_cast<Gate *>(argument);
    pthread_mutex_lock(&at.mutex);
    while (!at.open) pthread_cond_wait(&at.opened, &at.mutex);
    pthread_mutex_unlock(&at.mutex);
    return nullptr;
  };
  pthread_t threads[kMost + kMore];
  const int tried = (wanted < kMost ? wanted : kMost) + kMore;
  int started = 0;
  while (started < tried && pthread_create(&threads[started], nullptr, wait, &gate) == 0) ++started;
  pthread_mutex_lock(&gate.mutex);
  gate.open = true;
  pthread_cond_broadcast(&gate.opened);
  pthread_mutex_unlock(&gate.mutex);
  for (int i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
  return started > kMore ? started - kMore : 0;
#endif
}

// How many threads a runtime may be asked for at once, the calling one included: as many as are wanted, unless the
// system refused some when so many were first wanted.
class Allowance {
 public:
  int of(int wanted) {
    if (wanted > asked_) {
      asked_ = wanted;
      granted_ = 1 + spare_threads(wanted - 1);
    }
    return wanted < granted_ ? wanted : granted_;
  }

 private:
  int asked_ = 1, granted_ = 1;
};

// Where a worker runs. The system puts a thread that is woken where it was before, or where it is woken from, and where
// no processor is idle leaves it there: on its caller's own, it would only take the caller's time.
class Place {
 public:
#if defined(__linux__)
  // By the worker, before anything else.
  void take() {
    thread_ = pthread_self();
  }

  // By the thread that is about to wake it, whose processor is left to itself.
  void keep_off_caller() {
    const int here = sched_getcpu();
    kept_off_ = here >= 0 && here < CPU_SETSIZE && pthread_getaffinity_np(thread_, sizeof allowed_, &allowed_) == 0 &&
                CPU_ISSET(static_cast<size_t>(here), &allowed_) && CPU_COUNT(&allowed_) > 1;
    if (!kept_off_) return;
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<size_t>(here), &others);
    pthread_setaffinity_np(thread_, sizeof others, &others);
  }

  // By the worker, once it is awake: it may be moved anywhere again.
  void settle() {
    if (kept_off_) pthread_setaffinity_np(thread_, sizeof allowed_, &allowed_);
    kept_off_ = false;
  }

 private:
  pthread_t thread_{};
  cpu_set_t allowed_{};
  bool kept_off_ = false;
#else
  void take() {}
  void keep_off_caller() {}
  void settle() {}
#endif
};

// Whether threads that a plug-in started are gone, because this process is a fork of the one that has them. Registered
// when the plug-in is loaded, for a child may not wait for another thread to register it.
class LostThreads {
 public:
  static void there_are_some() { some().store(true, std::memory_order_relaxed); }
  static bool lost() { return gone().load(std::memory_order_relaxed); }

 private:
  static std::atomic<bool> &some() {
    static std::atomic<bool> flag{false};
    return flag;
  }
  static std::atomic<bool> &gone() {
    static std::atomic<bool> flag{false};
    return flag;
  }
  static void forked() {
    if (some().load(std::memory_order_relaxed)) gone().store(true, std::memory_order_relaxed);
  }
  inline static const bool registered_ = on_fork(forked);
};

} // namespace polyconv::sdk
