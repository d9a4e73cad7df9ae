// runnable.hpp - whatever can be submitted to a device, and how long that takes: by the host's clock, between events of
// the device, or as one graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <functional>
#include <map>
#include <string>

#include "api/handles.hpp"

namespace polyconv::bench {

// What tells the time: the host, two events of the device around the runs, or those around one graph of the runs.
enum class Clock { kWall, kEvents, kGraph };
const char *clock_name(Clock clock); // "wall", "events", "graph"

// Work for the device before it is timed: while it is busy the host gets ahead, so that the way from the host to the
// device is not timed. Empty: a few runs, unless what is timed takes so long that it does not matter.
using Lead = std::function<void(void *stream)>;

// On a stream of its own, where the device has streams; on the CPU everything is done on return.
class Runnable {
 public:
  explicit Runnable(const polyconv_device *device); // throws Unable
  virtual ~Runnable() = default;
  Runnable(const Runnable &) = delete;
  Runnable &operator=(const Runnable &) = delete;

  // One run, enqueued and not waited for. Throws Unable.
  virtual void submit() = 0;
  virtual std::string kernel() const = 0; // that runs, for people where there are several
  virtual std::string math() const = 0;   // the mode entered

  // Whether the device works behind the caller's back, on streams: its own events then tell the time.
  bool has_streams() const { return stream_.get() != nullptr; }
  void wait();

  // Runs `repeats` times and waits: seconds by the clock for all of them. By events, `lead` goes before what is timed.
  // Throws Unable where the device has no such clock, or the runs cannot be captured.
  double run(int64_t repeats, Clock clock = Clock::kWall, const Lead &lead = {});

  void launch_graph(); // of one run, without waiting; Unable where it cannot be captured

 protected:
  const polyconv_device *device() const { return device_; }
  void *stream() const { return stream_.get(); }

 private:
  double run_on_device(int64_t repeats, void *graph, const Lead &lead);
  void *graph_of(int64_t repeats);

  const polyconv_device *device_;
  DeviceObject stream_, start_, stop_;
  std::map<int64_t, DeviceObject> graphs_; // by the number of runs in them
  double run_seconds_ = 0;                 // of the latest run between events
};

} // namespace polyconv::bench
