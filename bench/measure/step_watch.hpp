// step_watch.hpp - takes the time of each step of a plan's runs, as the plan's observer: by events where the device has
// streams, else by the host's clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <string>
#include <vector>

#include "api/handles.hpp"
#include "subject/host_clock.hpp"
#include "subject/planned.hpp"

namespace polyconv::bench {

struct StepTime {
  std::string kernel;
  double us; // the median of all samples
};

class StepWatch {
 public:
  StepWatch(const polyconv_device *device, bool has_streams) : device_(device), has_streams_(has_streams) {}

  PlanRequest watched(PlanRequest request); // the same, watched by this, which must outlive the plan
  void collect();                           // after a run and the wait for it: one sample of every step
  std::vector<StepTime> times() const;

  struct Step {
    std::string kernel;
    HostClock::time_point begin;
    double us;
  };
  // The steps of the last run, after the wait for it. Events of a device have no clock of the host's: its first step
  // then begins at `submitted`.
  std::vector<Step> last(HostClock::time_point submitted) const;

 private:
  struct Mark {
    std::string kernel;
    DeviceObject event;
    HostClock::time_point time;
    std::vector<double> times_us; // from the mark before to this one
  };

  static void see(void *self, int32_t step, const char *kernel, void *stream);
  void mark(size_t number, const char *kernel, void *stream);
  double between(const Mark &begin, const Mark &end) const;

  const polyconv_device *device_;
  bool has_streams_;
  std::vector<Mark> marks_; // the beginning, then each step
};

} // namespace polyconv::bench
