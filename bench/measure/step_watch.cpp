// step_watch.cpp - takes the time of each step of a plan's runs.
// SPDX-License-Identifier: Apache-2.0
#include "measure/step_watch.hpp"

#include "numbers/statistics.hpp"

namespace polyconv::bench {

PlanRequest StepWatch::watched(PlanRequest request) {
  request.observer = &StepWatch::see;
  request.observer_context = this;
  return request;
}

void StepWatch::see(void *self, int32_t step, const char *kernel, void *stream) {
  static_cast<StepWatch *>(self)->mark(static_cast<size_t>(int64_t{step} + 1), kernel, stream);
}

// Called by C code: an event that cannot be recorded shows as a failure of between().
void StepWatch::mark(size_t number, const char *kernel, void *stream) {
  if (number >= marks_.size()) {
    marks_.resize(number + 1);
    marks_[number].kernel = kernel;
    void *event = nullptr;
    if (has_streams_ && polyconv_event_create(device_, &event) == POLYCONV_SUCCESS)
      marks_[number].event = DeviceObject(device_, event, polyconv_event_destroy);
  }
  if (has_streams_)
    polyconv_event_record(device_, marks_[number].event.get(), stream);
  else
    marks_[number].time = HostClock::now();
}

double StepWatch::between(const Mark &begin, const Mark &end) const {
  if (!has_streams_) return std::chrono::duration<double, std::micro>(end.time - begin.time).count();
  double milliseconds = 0;
  require(polyconv_event_elapsed(device_, begin.event.get(), end.event.get(), &milliseconds));
  return milliseconds * 1e3;
}

void StepWatch::collect() {
  for (size_t i = 1; i < marks_.size(); ++i) marks_[i].times_us.push_back(between(marks_[i - 1], marks_[i]));
}

std::vector<StepWatch::Step> StepWatch::last(HostClock::time_point submitted) const {
  std::vector<Step> steps;
  HostClock::time_point begin = has_streams_ || marks_.empty() ? submitted : marks_.front().time;
  for (size_t i = 1; i < marks_.size(); ++i) {
    const double us = between(marks_[i - 1], marks_[i]);
    steps.push_back({marks_[i].kernel, begin, us});
    begin += std::chrono::duration_cast<HostClock::duration>(std::chrono::duration<double, std::micro>(us));
  }
  return steps;
}

std::vector<StepTime> StepWatch::times() const {
  std::vector<StepTime> times;
  for (size_t i = 1; i < marks_.size(); ++i) times.push_back({marks_[i].kernel, median(marks_[i].times_us)});
  return times;
}

} // namespace polyconv::bench
