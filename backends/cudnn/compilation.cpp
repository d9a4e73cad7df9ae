// compilation.cpp - see compilation.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "compilation.hpp"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include <polyconv/sdk/backend.hpp>
#include "common/device/check.hpp"

namespace polyconv::cudnn {

Finalised finalise(cudnnHandle_t handle, const Config &config) {
  try {
    return {std::make_shared<const Execution>(handle, config), ""};
  } catch (const sdk::Error &error) {
    return {nullptr, error.what()};
  }
}

namespace {

// In a graph of its own, for this handle.
Finalised compile(cudnnHandle_t handle, const polyconv_layer &layer, const Candidate &candidate) {
  const std::string name = candidate.name();
  sdk::host->log(POLYCONV_LOG_DEBUG, ("cudnn: " + name + " is being compiled").c_str());
  const Clock::time_point begin = Clock::now();
  Finalised made;
  try {
    const Graph graph(handle, layer, candidate.way->order());
    made = finalise(handle, graph.configured(candidate.config.engine, candidate.config.knobs));
  } catch (const sdk::Error &error) {
    made.why = error.what();
  }
  char words[64];
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  std::snprintf(words, sizeof words, " %s compiled in %.2f s", made.execution ? "is" : "cannot be", seconds.count());
  sdk::host->log(POLYCONV_LOG_DEBUG, ("cudnn: " + name + words).c_str());
  return made;
}

} // namespace

Compilation::Compilation(const polyconv_layer &layer, const std::vector<Candidate> &candidates, Clock::time_point until,
                         const polyconv_policy &policy)
    : layer_(layer), candidates_(candidates), until_(until), device_(policy.device_index), made_(candidates.size()) {
  constexpr int kMost = 16; // beside the caller's thread, which joins in when it waits
  const int own = policy.parallel_for == nullptr ? std::clamp(policy.threads - 1, 0, kMost) : 0;
  const size_t others = std::min(candidates.size(), static_cast<size_t>(own));
  try {
    for (size_t i = 0; i < others; ++i) workers_.push_back(std::async(std::launch::async, [this] { work(); }));
  } catch (const std::system_error &) { // no more threads: those that started, or the caller alone, compile all
  }
}

Compilation::~Compilation() {
  next_ = candidates_.size();
}

void Compilation::work() {
  if (next_ >= candidates_.size()) return;
  try {
    const cuda::DeviceScope scope(device_);
    const Handle handle(device_);
    compile_next(handle.get());
  } catch (const sdk::Error &) { // no room for another handle: the other threads compile all
  }
}

void Compilation::compile_next(cudnnHandle_t handle) {
  while (Clock::now() < until_) {
    const size_t i = next_++;
    if (i >= candidates_.size()) return;
    made_[i] = compile(handle, layer_, candidates_[i]);
  }
}

const std::vector<std::optional<Finalised>> &Compilation::wait(cudnnHandle_t handle) {
  compile_next(handle);
  for (std::future<void> &worker : workers_) worker.get();
  workers_.clear();
  return made_;
}

} // namespace polyconv::cudnn
