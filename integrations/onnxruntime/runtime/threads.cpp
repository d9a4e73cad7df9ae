// threads.cpp - see threads.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads.hpp"

#include <utility>

namespace polyconv_ort {
namespace {

thread_local Crew running = {nullptr, nullptr};

struct Share {
  void (*task)(void *, int64_t);
  void *context;
  Hands *hands;
};

} // namespace

void Hands::note() {
  std::lock_guard<std::mutex> lock(mutex_);
  threads_.insert(std::this_thread::get_id());
}

void Hands::add_to(std::set<std::thread::id> &threads) const {
  std::lock_guard<std::mutex> lock(mutex_);
  threads.insert(threads_.begin(), threads_.end());
}

Running::Running(const Crew &crew) : before_(std::exchange(running, crew)) {
  if (crew.hands) crew.hands->note();
}

Running::~Running() {
  running = before_;
}

void share_out(void *api_pointer, int64_t tasks, void (*task)(void *, int64_t), void *task_context) {
  const auto &api = *static_cast<const Api *>(api_pointer);
  if (running.context && tasks > 1) {
    Share share{task, task_context, running.hands};
    OrtStatus *status = api.KernelContext_ParallelFor(
        running.context,
        [](void *data, size_t i) {
          auto *shared = static_cast<Share *>(data);
          if (shared->hands) shared->hands->note();
          shared->task(shared->context, static_cast<int64_t>(i));
        },
        static_cast<size_t>(tasks), 0, &share);
    if (!status) return;
    api.ReleaseStatus(status); // refused before it began
  }
  for (int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

polyconv::Options plan_options(const Settings &settings) {
  polyconv::Options options;
  options.math = settings.math, options.determinism = settings.determinism;
  options.fallback = POLYCONV_FALLBACK_ALLOW; // the report names the kernel
  if (!settings.kernel.empty()) options.kernel = settings.kernel.c_str();
  return options;
}

} // namespace polyconv_ort
