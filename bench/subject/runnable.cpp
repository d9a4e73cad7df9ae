// runnable.cpp - whatever can be submitted to a device, and how long that takes.
// SPDX-License-Identifier: Apache-2.0
#include "subject/runnable.hpp"

#include <algorithm>
#include <optional>

#include "subject/host_clock.hpp"

namespace polyconv::bench {

namespace {

constexpr double kLongOnDevice = 2e-3; // seconds that do not show a few microseconds on the way to the device

} // namespace

const char *clock_name(Clock clock) {
  return clock == Clock::kWall ? "wall" : clock == Clock::kEvents ? "events" : "graph";
}

Runnable::Runnable(const polyconv_device *device) : device_(device) {
  void *stream = nullptr;
  if (polyconv_stream_create(device_, &stream) != POLYCONV_SUCCESS || stream == nullptr) return;
  stream_ = DeviceObject(device_, stream, polyconv_stream_destroy);
  start_ = make_event(device_);
  stop_ = make_event(device_);
}

void Runnable::wait() {
  if (has_streams()) require(polyconv_stream_synchronize(device_, stream_.get()));
}

double Runnable::run(int64_t repeats, Clock clock, const Lead &lead) {
  if (clock != Clock::kWall) return run_on_device(repeats, clock == Clock::kGraph ? graph_of(repeats) : nullptr, lead);
  const HostClock::time_point begin = HostClock::now();
  for (int64_t i = 0; i < repeats; ++i) submit();
  wait();
  return seconds_since(begin);
}

double Runnable::run_on_device(int64_t repeats, void *graph, const Lead &lead) {
  if (lead) {
    lead(stream_.get());
  } else if (run_seconds_ * static_cast<double>(repeats) < kLongOnDevice) {
    for (int64_t i = 0; i < std::clamp<int64_t>(repeats / 4, 1, 16); ++i) submit();
  }
  require(polyconv_event_record(device_, start_.get(), stream_.get()));
  if (graph) {
    require(polyconv_graph_launch(device_, graph, stream_.get()));
  } else {
    for (int64_t i = 0; i < repeats; ++i) submit();
  }
  require(polyconv_event_record(device_, stop_.get(), stream_.get()));
  require(polyconv_event_synchronize(device_, stop_.get()));
  double milliseconds = 0;
  require(polyconv_event_elapsed(device_, start_.get(), stop_.get(), &milliseconds));
  run_seconds_ = milliseconds * 1e-3 / static_cast<double>(std::max<int64_t>(repeats, 1));
  return milliseconds * 1e-3;
}

void Runnable::launch_graph() {
  require(polyconv_graph_launch(device_, graph_of(1), stream_.get()));
}

void *Runnable::graph_of(int64_t repeats) {
  DeviceObject &graph = graphs_[repeats];
  if (graph.get()) return graph.get();
  require(polyconv_graph_begin(device_, stream_.get()));
  std::optional<Unable> failure;
  try {
    for (int64_t i = 0; i < repeats; ++i) submit();
  } catch (const Unable &unable) {
    failure = unable; // the capture is ended all the same, or the stream would be of no more use
  }
  void *recorded = nullptr;
  const polyconv_status ended = polyconv_graph_end(device_, stream_.get(), &recorded);
  graph = DeviceObject(device_, recorded, polyconv_graph_destroy);
  if (failure) throw Unable(*failure);
  require(ended);
  return graph.get();
}

} // namespace polyconv::bench
