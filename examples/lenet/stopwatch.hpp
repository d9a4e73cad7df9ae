// stopwatch.hpp - the time of work on a device's stream, by its events.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "session.hpp"

namespace lenet {

// The median of several runs after one that nobody counts; fewer where one takes long.
template <class Work>
double milliseconds(const Session &session, const Work &work) {
  constexpr size_t kRuns = 9;
  constexpr double kEnough = 1000;
  polyconv::Event start(session.device), stop(session.device);
  std::vector<double> times;
  double all = 0;
  work();
  while (times.empty() || (times.size() < kRuns && all < kEnough)) {
    start.record(session.stream.get());
    work();
    stop.record(session.stream.get());
    stop.synchronize();
    times.push_back(start.milliseconds_until(stop));
    all += times.back();
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

} // namespace lenet
