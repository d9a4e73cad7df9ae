// compilation.hpp - candidates made ready to run. Most engines are in a moment; some are compiled, which takes tenths
// of a second to seconds, on threads of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <optional>

#include "candidates.hpp"

namespace polyconv::cudnn {

using Clock = std::chrono::steady_clock;

// A candidate made ready to run, or why it is not.
struct Finalised {
  std::shared_ptr<const Execution> execution;
  std::string why;
};

// On the thread that has the handle of the candidate's graph.
Finalised finalise(cudnnHandle_t handle, const Config &config);

// Finalises candidates of a layer on up to policy.threads threads, or where a plan may use only its caller's, on the
// one that waits. Each has a handle and graphs of its own: cuDNN allows that, and what it compiles with, NVRTC,
// generates code on several threads but parses on one at a time.
class Compilation {
 public:
  // Layer and candidates must outlive it. Begins none after `until`.
  Compilation(const polyconv_layer &layer, const std::vector<Candidate> &candidates, Clock::time_point until,
              const polyconv_policy &policy);
  ~Compilation();
  Compilation(const Compilation &) = delete;
  Compilation &operator=(const Compilation &) = delete;

  // Helps with the caller's handle. When all that were begun are done: in the order of the candidates, empty where one
  // was not begun.
  const std::vector<std::optional<Finalised>> &wait(cudnnHandle_t handle);

 private:
  void work(); // of a thread of its own
  void compile_next(cudnnHandle_t handle);

  const polyconv_layer &layer_;
  const std::vector<Candidate> &candidates_;
  const Clock::time_point until_;
  const int device_;
  std::vector<std::optional<Finalised>> made_;
  std::atomic<size_t> next_{0};
  std::vector<std::future<void>> workers_; // behind what they use, so that they are waited for before it goes
};

} // namespace polyconv::cudnn
