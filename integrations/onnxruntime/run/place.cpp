// place.cpp - the host: see place.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/place.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include "run/pass.hpp"
#include "run/refusal.hpp"
#include "runtime/threads.hpp"

namespace polyconv_ort {
namespace {

class HostWatch : public Watch {
 public:
  void stop() override { end_ = Clock::now(); }
  double seconds() override { return std::chrono::duration<double>(end_ - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now(), end_ = begin_;
};

// As many threads as the process may use; 0 where no kernel is there to be planned with, which is told elsewhere. No
// thread of polyconv's own is started for it.
int32_t all_threads(const Api &api) {
  polyconv::Options options;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.parallel_for = share_out, options.parallel_for_context = const_cast<Api *>(&api);
  try {
    return polyconv::Plan(polyconv::Problem("fwd:c1,k1,i1x1,f1x1"), options).info().threads;
  } catch (const polyconv::Error &) {
    return 0;
  }
}

} // namespace

HostPlace::HostPlace(const Api &api, const Settings &settings)
    : api_(api), settings_(settings), threads_(settings.threads > 0 ? settings.threads : all_threads(api)) {}

std::unique_ptr<Watch> HostPlace::watch(void *) const {
  return std::make_unique<HostWatch>();
}

Terms HostPlace::terms() const {
  Terms terms; // the reference takes every layer, where it may
  if (!settings_.kernel.empty() || settings_.determinism == POLYCONV_DETERMINISM_IDENTICAL)
    terms.refusal = [this](const Recipe &recipe) { return refusal_of(recipe, *this); };
  return terms;
}

polyconv::Options HostPlace::options() const {
  polyconv::Options options = plan_options(settings_);
  options.threads = threads_;
  if (settings_.session_pool) {
    options.parallel_for = share_out;
    options.parallel_for_context = const_cast<Api *>(&api_);
  }
  return options;
}

double HostPlace::turning(double bytes) const {
  constexpr double kBytesAMicrosecond = 20e3, kMicroseconds = 2;
  return kMicroseconds + 2 * bytes / kBytesAMicrosecond;
}

std::shared_ptr<const void> HostPlace::constant(std::vector<char> bytes) const {
  auto kept = std::make_shared<const std::vector<char>>(std::move(bytes));
  return {kept, kept->data()};
}

std::shared_ptr<void> HostPlace::memory(const OrtKernelContext *, size_t bytes) {
  std::unique_ptr<polyconv::Memory> memory;
  {
    std::lock_guard<std::mutex> lock(blocks_->mutex);
    if (!blocks_->free.empty()) memory = std::move(blocks_->free.back()), blocks_->free.pop_back();
  }
  if (!memory || memory->bytes() < bytes) {
    memory.reset(); // before the larger one, so that both are never there
    // Half as much again, of which the system gives no page before it is written: larger sizes may follow, and clearing
    // all pages anew takes as long as a run.
    memory = std::make_unique<polyconv::Memory>(device_, bytes + bytes / 2);
  }
  void *pointer = memory->get();
  return {pointer, [blocks = blocks_, raw = memory.release()](void *) {
            std::unique_ptr<polyconv::Memory> back(raw);
            std::lock_guard<std::mutex> lock(blocks->mutex);
            blocks->free.push_back(std::move(back));
          }};
}

void HostPlace::expect(size_t bytes) {
  const std::shared_ptr<void> block = memory(nullptr, bytes);
  std::memset(block.get(), 0, bytes); // the system gives the pages now, not in the first run
}

void HostPlace::fetch(const OrtKernelContext *, const void *from, void *to, size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void HostPlace::turn(const Turn &turned, const void *from, void *to, void *) const {
  polyconv_ort::turn(api_, turned, from, to);
}

void HostPlace::run(const Pass &pass, const std::vector<PassTensor> &inputs, const PassTensor &output, void *) const {
  pass.run(inputs, output);
}

} // namespace polyconv_ort
