// profile.cpp - where the time of a run goes.
// SPDX-License-Identifier: Apache-2.0
#include "profile.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "../statistics.hpp"
#include "../text.hpp"
#include "host_clock.hpp"
#include "tensors.hpp"

namespace polyconv::bench {

namespace {

constexpr int kSamples = 9;
constexpr int kSubmits = 16;                // in a row: the device's queue is never full
constexpr size_t kBlock = size_t{64} << 20; // of host memory through which a tensor of any size is copied

double microseconds_since(HostClock::time_point begin) {
  return seconds_since(begin) * 1e6;
}

// Takes the time at each call of the observer: by events where the device has streams, else by the host's clock.
class StepWatch {
 public:
  StepWatch(const polyconv_device *device, bool has_streams) : device_(device), has_streams_(has_streams) {}

  static void see(void *self, int32_t step, const char *kernel, void *stream) {
    static_cast<StepWatch *>(self)->mark(static_cast<size_t>(int64_t{step} + 1), kernel, stream);
  }

  // After a run and the wait for it: one sample of every step.
  void collect() {
    for (size_t i = 1; i < marks_.size(); ++i) marks_[i].times_us.push_back(between(marks_[i - 1], marks_[i]));
  }

  std::vector<ProfileLine> lines() const {
    std::vector<ProfileLine> lines;
    for (size_t i = 1; i < marks_.size(); ++i) {
      ProfileLine line{"step", format("%zu: %s", i, marks_[i].kernel.c_str()), {}, {}, {}};
      (has_streams_ ? line.device_us : line.host_us) = median(marks_[i].times_us);
      lines.push_back(line);
    }
    return lines;
  }

 private:
  struct Mark {
    std::string kernel;
    DeviceObject event;
    HostClock::time_point time;
    std::vector<double> times_us; // from the mark before to this one
  };

  // Called by C code: an event that cannot be recorded shows as a failure of between().
  void mark(size_t number, const char *kernel, void *stream) {
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

  double between(const Mark &begin, const Mark &end) const {
    if (!has_streams_) return std::chrono::duration<double, std::micro>(end.time - begin.time).count();
    double milliseconds = 0;
    require(polyconv_event_elapsed(device_, begin.event.get(), end.event.get(), &milliseconds));
    return milliseconds * 1e3;
  }

  const polyconv_device *device_;
  bool has_streams_;
  std::vector<Mark> marks_;
};

// What a program pays once.
void add_preparation(const Subject &subject, std::vector<ProfileLine> &lines) {
  const Ready &ready = subject.ready();
  lines.push_back({"call", "polyconv_plan_create", subject.planned().plan_us(), {}, {}});
  if (ready.pack_us())
    lines.push_back({"call", "polyconv_weights_create, and the wait for it", *ready.pack_us(), {}, {}});
  if (ready.bind_us()) lines.push_back({"call", "polyconv_bind", *ready.bind_us(), {}, {}});
}

// The host's time to submit, alone: the device is still busy when the last of them returns.
void add_run(Subject &subject, std::vector<ProfileLine> &lines) {
  std::vector<double> submit, wait, device;
  for (int sample = 0; sample < kSamples; ++sample) {
    HostClock::time_point begin = HostClock::now();
    for (int i = 0; i < kSubmits; ++i) subject.submit();
    submit.push_back(microseconds_since(begin) / kSubmits);
    subject.wait();
    subject.submit();
    begin = HostClock::now();
    subject.wait();
    wait.push_back(microseconds_since(begin));
    if (subject.has_streams()) device.push_back(subject.run(1, Clock::kEvents) * 1e6);
  }
  lines.push_back({"call", subject.ready().bound() ? "polyconv_run_bound" : "polyconv_run", median(submit), {}, {}});
  if (!subject.has_streams()) return;
  lines.back().device_us = median(device);
  lines.push_back({"call", "polyconv_stream_synchronize, after one run", median(wait), {}, {}});
}

// The steps, each on its own; a few runs first, and one behind which the watched run is submitted.
void add_steps(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
               int64_t memory_limit, bool has_streams, std::vector<ProfileLine> &lines) {
  StepWatch watch(device, has_streams);
  PlanRequest watched = request;
  watched.observer = &StepWatch::see;
  watched.observer_context = &watch;
  Subject subject(device, work, watched, pool, "workspace", memory_limit);
  for (int sample = 0; sample < kSamples; ++sample) {
    subject.submit(); // the marks of this run are overwritten by the next
    subject.submit();
    subject.wait();
    watch.collect();
  }
  const std::vector<ProfileLine> steps = watch.lines();
  lines.insert(lines.end(), steps.begin(), steps.end());
}

// The host's time of a graph's launch, and the device's.
void add_graph(Subject &subject, std::vector<ProfileLine> &lines) {
  try {
    std::vector<double> device, host;
    for (int sample = 0; sample < kSamples; ++sample) {
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
  add_run(subject, lines);
  add_steps(device, work, request, pool, memory_limit, subject.has_streams(), lines);
  if (subject.has_streams()) {
    add_graph(subject, lines);
    add_transfers(device, work, subject, true, lines);
  }
  return lines;
}

} // namespace polyconv::bench
