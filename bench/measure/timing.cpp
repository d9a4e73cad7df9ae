// timing.cpp - how samples are taken.
// SPDX-License-Identifier: Apache-2.0
#include "measure/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace polyconv::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostRepeats = 1000; // in one sample; what takes no time at all is not run for ever
// Thread runtimes spin for milliseconds after a parallel region; who comes next would pay for it.
constexpr std::chrono::milliseconds kSettle{15};
// Afterwards threads sleep. A run longer than the first does not notice that they have to wake up, perhaps on one
// processor at first; shorter ones are repeated for the second, as one of microseconds is over before anybody is awake.
constexpr double kLongRun = 10e-3;
constexpr std::chrono::microseconds kWaking{500};

// Runs until caches, pages and clocks are warm; the seconds of the fastest run.
double warm_up(const Sampler &sampler) {
  double fastest = sampler(1);
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 100; ++i) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > 0.02) break;
    fastest = std::min(fastest, sampler(1));
  }
  return fastest;
}

class Contestant {
 public:
  Contestant(const Sampler &sampler, const TimingRequest &request)
      : sampler_(sampler), request_(request), last_(warm_up(sampler)), fastest_(last_) {
    if (!request.cold && last_ < request.short_sample)
      repeats_ = static_cast<int64_t>(std::ceil(std::min(request.short_sample / std::max(last_, 1e-9), kMostRepeats)));
  }

  // One sample in microseconds a run.
  double sample(bool alone) {
    if (!alone && request_.settle) {
      std::this_thread::sleep_for(kSettle);
      if (fastest_ < kLongRun) wake();
    }
    if (request_.cold) request_.flush();
    last_ = sampler_(repeats_) / static_cast<double>(repeats_);
    fastest_ = std::min(fastest_, last_);
    return last_ * 1e6;
  }
  double sampled() const { return last_ * static_cast<double>(repeats_); }

 private:
  void wake() const {
    const Clock::time_point begin = Clock::now();
    do sampler_(1);
    while (Clock::now() - begin < kWaking);
  }

  const Sampler &sampler_;
  const TimingRequest &request_;
  double last_, fastest_; // seconds of a run: the latest, the shortest
  int64_t repeats_ = 1;
};

} // namespace

Timing time_interleaved(const Sampler &product, const Sampler &baseline, const TimingRequest &request) {
  Timing timing;
  Contestant a(product, request);
  const bool alone = !baseline;
  std::vector<Contestant> others;
  if (!alone) others.emplace_back(baseline, request);
  double sampled = 0;
  const Clock::time_point begin = Clock::now();
  while (true) {
    timing.product_us.push_back(a.sample(alone));
    sampled += a.sampled();
    if (!alone) {
      timing.baseline_us.push_back(others.front().sample(false));
      timing.ratios.push_back(timing.baseline_us.back() / timing.product_us.back());
    }
    if (static_cast<int>(timing.product_us.size()) < request.least_samples) continue;
    // Waiting and flushing count too, or short runs would be measured for ever.
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (sampled >= request.min_seconds || elapsed >= 4 * request.min_seconds) return timing;
  }
}

std::vector<double> time_cold(const Sampler &product, const std::function<void()> &flush, int samples) {
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    flush();
    times.push_back(product(1) * 1e6);
  }
  return times;
}

} // namespace polyconv::bench
