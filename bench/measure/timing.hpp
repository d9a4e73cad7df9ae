// timing.hpp - how samples are taken: warm-up, then rounds until enough time and enough samples, the baseline's between
// the product's own (A B A B), so that both see the same machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace polyconv::bench {

// Runs something `repeats` times and returns the seconds that all of them took.
using Sampler = std::function<double(int64_t repeats)>;

// Seconds of a sample between events of a device, whose own cost must not show.
inline constexpr double kShortOnDevice = 5e-4;

struct TimingRequest {
  double min_seconds = 0.1; // of the product's samples together
  int least_samples = 9;
  double short_sample = 50e-6; // seconds: shorter runs are sampled many at a time
  bool settle = true;          // the other's threads spin for a while after it: wait for that
  bool cold = false;           // flush before every sample
  std::function<void()> flush; // makes the caches forget
};

struct Timing {
  std::vector<double> product_us;  // a run, one sample each
  std::vector<double> baseline_us; // as many, or none
  std::vector<double> ratios;      // baseline over product, round by round
};

// `baseline` may be empty. A sample is one run, or as many as take `short_sample`: the clock's own cost must not show.
// With a baseline and `settle`, each change of hands waits until the other's threads have stopped spinning, then runs
// once untimed.
Timing time_interleaved(const Sampler &product, const Sampler &baseline, const TimingRequest &request);

// Microseconds of a few runs, each after a flush.
std::vector<double> time_cold(const Sampler &product, const std::function<void()> &flush, int samples);

} // namespace polyconv::bench
