// step_watch.cpp - takes the time of each step of a plan's runs.
// SPDX-License-Identifier: Apache-2.0
#include "step_watch.hpp"

#include "../statistics.hpp"

namespace polyconv::bench {

PlanRequest StepWatch::watched(PlanRequest request) {
  request.observer = &StepWatch::see;
  request.observer_context = this;
  return request;
}

void StepWatch::see(void *self, int32_t step, const char *kernel, void *stream) {
  static_cast<StepWatch *>(self)->mark(step, kernel, stream);
}

// Called by C code: an event that cannot be recorded shows as a failure of between().
void StepWatch::mark(int32_t step, const char *kernel, void *stream) {
  if (next_ == marks_.size()) {
    marks_.push_back({step, kernel, {}, {}, {}});
    void *event = nullptr;
    if (has_streams_ && polyconv_event_create(device_, &event) == POLYCONV_SUCCESS)
      marks_.back().event = DeviceObject(device_, event, polyconv_event_destroy);
  }
  Mark &mark = marks_[next_++];
  if (has_streams_)
    polyconv_event_record(device_, mark.event.get(), stream);
  else
    mark.time = HostClock::now();
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

std::vector<std::vector<StepTime>> StepWatch::times() const {
  std::vector<std::vector<StepTime>> plans;
  for (const Mark &mark : marks_) {
    if (mark.step < 0)
      plans.emplace_back(); // a run begins
    else
      plans.back().push_back({mark.kernel, median(mark.times_us)});
  }
  return plans;
}

} // namespace polyconv::bench
