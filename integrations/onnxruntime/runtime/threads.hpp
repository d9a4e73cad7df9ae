// threads.hpp - the session's threads, lent to polyconv for the time of a run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_THREADS_HPP
#define POLYCONV_ORT_THREADS_HPP

#include <polyconv/polyconv.hpp>

#include <mutex>
#include <set>
#include <thread>

#include "runtime/graph.hpp"
#include "runtime/settings.hpp"

namespace polyconv_ort {

// Which threads had a part in the work. Any thread may note itself.
class Hands {
 public:
  void note();
  void add_to(std::set<std::thread::id> &) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

// Whose threads a run has. No context: nobody's; no hands: they are not counted.
struct Crew {
  const OrtKernelContext *context;
  Hands *hands;
};

// Says, while it lives, which crew `share_out` and the plans below have on this thread.
class Running {
 public:
  explicit Running(const Crew &);
  ~Running();
  Running(const Running &) = delete;
  Running &operator=(const Running &) = delete;

 private:
  Crew before_;
};

// polyconv_parallel_for on the session's threads; its context is the Api. Outside a run, while weights are packed say,
// the caller does it all.
void share_out(void *api, int64_t tasks, void (*task)(void *, int64_t), void *task_context);

// What every plan of a session is made with, wherever it runs.
polyconv::Options plan_options(const Settings &);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_THREADS_HPP
