// profile.cpp - where the time of a run goes.
// SPDX-License-Identifier: Apache-2.0
#include "measure/profile.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "measure/step_watch.hpp"
#include "measure/timing.hpp"
#include "numbers/statistics.hpp"
#include "subject/host_clock.hpp"
#include "subject/tensors.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

constexpr int kSamples = 9;
constexpr int kLeastSamples = 3;
constexpr double kEnoughSeconds = 2;        // of one line: then kLeastSamples do
constexpr int kSubmits = 16;                // in a row: the device's queue is never full
constexpr size_t kBlock = size_t{64} << 20; // of host memory through which a tensor of any size is copied

double microseconds_since(HostClock::time_point begin) {
  return seconds_since(begin) * 1e6;
}

// Whether a line needs another sample after so many, since `begin`.
bool more_samples(int taken, HostClock::time_point begin) {
  return taken < kLeastSamples || (taken < kSamples && seconds_since(begin) < kEnoughSeconds);
}

// What a program pays once.
void add_preparation(const Subject &subject, std::vector<ProfileLine> &lines) {
  const Ready &ready = subject.ready();
  lines.push_back({"call", "polyconv_plan_create", subject.planned().plan_us(), {}, {}});
  if (ready.pack_us())
    lines.push_back({"call", "polyconv_weights_create, and the wait for it", *ready.pack_us(), {}, {}});
  if (ready.bind_us()) lines.push_back({"call", "polyconv_bind", *ready.bind_us(), {}, {}});
}

// The host's time to submit, alone: the device is still busy when the last of them returns. `call` is what submits.
void add_run(const std::string &call, Runnable &subject, std::vector<ProfileLine> &lines) {
  std::vector<double> submit, wait, device;
  const int submits = subject.has_streams() ? kSubmits : 1; // on the CPU a submitted run is done
  const HostClock::time_point start = HostClock::now();
  for (int sample = 0; more_samples(sample, start); ++sample) {
    HostClock::time_point begin = HostClock::now();
    for (int i = 0; i < submits; ++i) subject.submit();
    submit.push_back(microseconds_since(begin) / submits);
    if (!subject.has_streams()) continue;
    subject.wait();
    subject.submit();
    begin = HostClock::now();
    subject.wait();
    wait.push_back(microseconds_since(begin));
    device.push_back(subject.run(1, Clock::kEvents) * 1e6);
  }
  lines.push_back({"call", call, median(submit), {}, {}});
  if (!subject.has_streams()) return;
  lines.back().device_us = median(device);
  lines.push_back({"call", "polyconv_stream_synchronize, after one run", median(wait), {}, {}});
}

// A line with the time that a step or layer takes: the device's, where it works behind the host's back.
ProfileLine part_line(const std::string &kind, const std::string &name, double us, bool has_streams) {
  ProfileLine line{kind, name, {}, {}, {}};
  (has_streams ? line.device_us : line.host_us) = us;
  return line;
}

// The steps, each on its own; a few runs first, and one behind which the watched run is submitted.
void add_steps(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
               int64_t memory_limit, bool has_streams, std::vector<ProfileLine> &lines) {
  StepWatch watch(device, has_streams);
  Subject subject(device, work, watch.watched(request), pool, "workspace", memory_limit);
  const HostClock::time_point start = HostClock::now();
  for (int sample = 0; more_samples(sample, start); ++sample) {
    if (subject.has_streams() || sample == 0) subject.submit(); // the marks of this run are overwritten by the next
    subject.submit();
    subject.wait();
    watch.collect();
  }
  int number = 0;
  for (const StepTime &step : watch.times())
    lines.push_back(part_line("step", format("%d: %s", ++number, step.kernel.c_str()), step.us, has_streams));
}

// Of one run; in graphs where it can be captured, so that neither the host nor events between layers count.
double microseconds_of(Runnable &runnable) {
  Clock clock = Clock::kWall;
  TimingRequest timing;
  timing.min_seconds = 0;
  if (runnable.has_streams()) {
    timing.short_sample = kShortOnDevice;
    try {
      runnable.run(1, clock = Clock::kGraph);
    } catch (const Unable &) {
      clock = Clock::kEvents;
    }
  }
  return median(time_interleaved([&](int64_t repeats) { return runnable.run(repeats, clock); }, {}, timing).product_us);
}

// Each distinct layer as a network of its own, with all its occurrences: the lines add up to about the whole.
void add_layers(const polyconv_device *device, const Work &network, const PlanRequest &request, BufferPool &pool,
                int64_t memory_limit, std::vector<ProfileLine> &lines) {
  for (const Work &layer : network.layers) {
    Work alone;
    alone.layers = {layer};
    Network subject(device, alone, request, pool, "workspace", memory_limit);
    const std::string kernel = subject.layers().front().kernel;
    lines.push_back(part_line(
        "layer", format("%lldx %s: %s", static_cast<long long>(layer.count), layer.title().c_str(), kernel.c_str()),
        microseconds_of(subject), subject.has_streams()));
  }
}

// The host's time of a graph's launch, and the device's.
void add_graph(Runnable &subject, std::vector<ProfileLine> &lines) {
  try {
    std::vector<double> device, host;
    const HostClock::time_point start = HostClock::now();
    for (int sample = 0; more_samples(sample, start); ++sample) {
      device.push_back(subject.run(1, Clock::kGraph) * 1e6);
      const HostClock::time_point begin = HostClock::now();
      subject.launch_graph();
      host.push_back(microseconds_since(begin));
      subject.wait();
    }
    lines.push_back({"call", "polyconv_graph_launch, of one run", median(host), median(device), {}});
  } catch (const Unable &unable) {
    lines.push_back({"call", std::string("polyconv_graph_launch: ") + unable.what(), {}, {}, {}});
  }
}

class Transfers {
 public:
  explicit Transfers(const polyconv_device *device)
      : device_(device),
        stream_(make_stream(device)),
        start_(make_event(device)),
        stop_(make_event(device)),
        pinned_(make_memory(device, kBlock, POLYCONV_MEMORY_PINNED)),
        pageable_(kBlock) {
    std::memset(pinned_.get(), 1, kBlock);
  }

  void add(const TensorUse &use, void *on_device, std::vector<ProfileLine> &lines) {
    for (const bool pinned : {false, true}) {
      auto *host = pinned ? static_cast<unsigned char *>(pinned_.get()) : pageable_.data();
      std::vector<double> host_us, device_us;
      for (int sample = 0; sample < 3; ++sample) {
        const HostClock::time_point begin = HostClock::now();
        device_us.push_back(copy(use, static_cast<unsigned char *>(on_device), host));
        host_us.push_back(microseconds_since(begin));
      }
      lines.push_back({use.written ? "copy out" : "copy in",
                       use.role() + (pinned ? ", pinned host memory" : ", ordinary host memory"), median(host_us),
                       median(device_us), use.bytes});
    }
  }

 private:
  // The whole tensor, block by block; microseconds between events.
  double copy(const TensorUse &use, unsigned char *on_device, unsigned char *host) {
    require(polyconv_event_record(device_, start_.get(), stream_.get()));
    for (size_t at = 0; at < static_cast<size_t>(use.bytes); at += kBlock) {
      const size_t bytes = std::min(kBlock, static_cast<size_t>(use.bytes) - at);
      require(polyconv_device_copy(device_, use.written ? host : on_device + at, use.written ? on_device + at : host,
                                   bytes, stream_.get()));
    }
    require(polyconv_event_record(device_, stop_.get(), stream_.get()));
    require(polyconv_event_synchronize(device_, stop_.get()));
    double milliseconds = 0;
    require(polyconv_event_elapsed(device_, start_.get(), stop_.get(), &milliseconds));
    return milliseconds * 1e3;
  }

  const polyconv_device *device_;
  DeviceObject stream_, start_, stop_, pinned_;
  std::vector<unsigned char> pageable_;
};

void add_transfers(const polyconv_device *device, const Work &work, const Subject &subject, bool written,
                   std::vector<ProfileLine> &lines) {
  Transfers transfers(device);
  for (const TensorUse &use : tensors_of(work))
    if (use.written == written && use.bytes > 0) transfers.add(use, pointer_of(subject.ready().buffers(), use), lines);
}

} // namespace

std::vector<ProfileLine> profile(const polyconv_device *device, const Work &work, const PlanRequest &request,
                                 Subject &subject, BufferPool &pool, int64_t memory_limit) {
  std::vector<ProfileLine> lines;
  add_preparation(subject, lines);
  if (subject.has_streams()) add_transfers(device, work, subject, false, lines);
  add_run(subject.ready().bound() ? "polyconv_run_bound" : "polyconv_run", subject, lines);
  add_steps(device, work, request, pool, memory_limit, subject.has_streams(), lines);
  if (subject.has_streams()) {
    add_graph(subject, lines);
    add_transfers(device, work, subject, true, lines);
  }
  return lines;
}

std::vector<ProfileLine> profile_network(const polyconv_device *device, const Work &work, const PlanRequest &request,
                                         Network &network, BufferPool &pool, int64_t memory_limit) {
  std::vector<ProfileLine> lines;
  add_run("polyconv_run, of all layers", network, lines);
  if (network.has_streams()) add_graph(network, lines);
  add_layers(device, work, request, pool, memory_limit, lines); // last: what `network` reads may move in the pool
  return lines;
}

} // namespace polyconv::bench
