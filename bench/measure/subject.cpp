// subject.cpp - one problem made ready on one kernel.
// SPDX-License-Identifier: Apache-2.0
#include "subject.hpp"

#include <algorithm>
#include <chrono>

#include "../statistics.hpp"
#include "../text.hpp"
#include "tensors.hpp"

namespace polyconv::bench {

namespace {

using HostClock = std::chrono::steady_clock;

constexpr double kLongOnDevice = 2e-3; // seconds that do not show a few microseconds on the way to the device

double seconds_since(HostClock::time_point begin) {
  return std::chrono::duration<double>(HostClock::now() - begin).count();
}

} // namespace

const char *clock_name(Clock clock) {
  return clock == Clock::kWall ? "wall" : clock == Clock::kEvents ? "events" : "graph";
}

polyconv_options options_of(const PlanRequest &request) {
  polyconv_options options;
  polyconv_options_init(&options);
  if (!request.kernel.empty()) options.kernel = request.kernel.c_str();
  options.math = request.math;
  options.threads = request.threads;
  options.determinism = request.determinism;
  options.workspace_limit = request.workspace_limit;
  options.tuning_budget_ms = request.tuning_ms;
  options.fallback = POLYCONV_FALLBACK_ALLOW; // the row says that it is one
  options.bind = 1;
  options.observer = request.observer;
  options.observer_context = request.observer_context;
  return options;
}

Subject::Subject(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
                 const std::string &workspace, int64_t memory_limit)
    : device_(device), work_(work), request_(request) {
  polyconv_buffers_init(&buffers_);
  polyconv_buffers_init(&host_);
  void *stream = nullptr;
  if (polyconv_stream_create(device_, &stream) == POLYCONV_SUCCESS && stream != nullptr) {
    stream_ = DeviceObject(device_, stream, polyconv_stream_destroy);
    start_ = make_event(device_);
    stop_ = make_event(device_);
  }
  plan(request);
  const int64_t own = info_.workspace_bytes + weights_bytes_;
  if (tensor_bytes(work) > memory_limit - own)
    throw Unable("skipped", "tensors, weights and workspace take " +
                                show_bytes(static_cast<double>(tensor_bytes(work) + own)) + ", more than the " +
                                show_bytes(static_cast<double>(memory_limit)) + " that this machine has to spare");
  attach(pool, workspace);
  pack();
  if (info_.needs_bind) {
    polyconv_bound *bound = nullptr;
    const HostClock::time_point begin = HostClock::now();
    require(polyconv_bind(plan_.get(), &buffers_, &bound));
    bind_us_ = seconds_since(begin) * 1e6;
    bound_.reset(bound);
  }
  first_us_ = run(1) * 1e6;
}

void Subject::plan(const PlanRequest &request) {
  const polyconv_options options = options_of(request);
  std::vector<double> times;
  double total = 0;
  // A plan may start threads; a slow one is not made often.
  while (times.size() < 9 && (times.empty() || total < 0.05)) {
    plan_.reset();
    polyconv_plan *plan = nullptr;
    const HostClock::time_point begin = HostClock::now();
    const polyconv_status status = polyconv_plan_create(device_, work_.problems.data(),
                                                        static_cast<int32_t>(work_.problems.size()), &options, &plan);
    times.push_back(seconds_since(begin));
    total += times.back();
    require(status);
    plan_.reset(plan);
  }
  plan_us_ = median(times) * 1e6;
  require(polyconv_plan_get_info(plan_.get(), &info_));
  for (size_t i = 0; i < work_.problems.size(); ++i) {
    const char *format = nullptr;
    int64_t bytes = 0;
    require(polyconv_plan_weights(plan_.get(), static_cast<int32_t>(i), &format, &bytes));
    if (std::string(format) != "raw") weights_bytes_ += bytes;
  }
}

void Subject::attach(BufferPool &pool, const std::string &workspace) {
  for (const TensorUse &use : tensors_of(work_))
    set_pointer(buffers_, use, pool.get(use.role(), use.bytes, use.type, use.written));
  buffers_.workspace = pool.get(workspace, info_.workspace_bytes, POLYCONV_U8, true);
  buffers_.workspace_size = static_cast<size_t>(info_.workspace_bytes);
}

void Subject::pack() {
  packed_.resize(work_.problems.size());
  double seconds = 0;
  for (size_t i = 0; i < packed_.size(); ++i) {
    const char *format = nullptr;
    require(polyconv_plan_weights(plan_.get(), static_cast<int32_t>(i), &format, nullptr));
    if (std::string(format) == "raw") continue;
    polyconv_weights *weights = nullptr;
    const HostClock::time_point begin = HostClock::now();
    require(polyconv_weights_create(plan_.get(), static_cast<int32_t>(i), buffers_.weights[i], nullptr, stream_.get(),
                                    &weights));
    packed_[i].reset(weights);
    wait();
    seconds += seconds_since(begin);
    buffers_.packed[i] = weights;
    pack_us_ = seconds * 1e6;
  }
}

void Subject::wait() {
  if (has_streams()) require(polyconv_stream_synchronize(device_, stream_.get()));
}

void Subject::submit() {
  require(bound_ ? polyconv_run_bound(bound_.get(), stream_.get())
                 : polyconv_run(plan_.get(), &buffers_, stream_.get()));
}

double Subject::run(int64_t repeats, Clock clock, const Lead &lead) {
  if (clock == Clock::kWall) {
    const HostClock::time_point begin = HostClock::now();
    for (int64_t i = 0; i < repeats; ++i) submit();
    wait();
    return seconds_since(begin);
  }
  void *const graph = clock == Clock::kGraph ? graph_of(repeats).get() : nullptr;
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

void Subject::launch_graph() {
  require(polyconv_graph_launch(device_, graph_of(1).get(), stream_.get()));
}

const DeviceObject &Subject::graph_of(int64_t repeats) {
  DeviceObject &graph = graphs_[repeats];
  if (graph.get()) return graph;
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
  return graph;
}

// Host copies of every tensor, random where they are read.
void Subject::make_host_copies() {
  if (!host_memory_.empty()) return;
  for (const TensorUse &use : tensors_of(work_)) {
    host_memory_.push_back(random_bytes(use.type, static_cast<size_t>(use.bytes), 1));
    set_pointer(host_, use, use.bytes > 0 ? host_memory_.back().data() : nullptr);
  }
}

double Subject::run_with_transfers() {
  if (!has_streams()) return run(1); // the CPU reads the caller's memory
  make_host_copies();
  const std::vector<TensorUse> uses = tensors_of(work_);
  const HostClock::time_point begin = HostClock::now();
  const auto move = [&](bool written) {
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].written != written || uses[i].bytes == 0 || !uses[i].per_run()) continue;
      void *own = pointer_of(buffers_, uses[i]), *host = host_memory_[i].data();
      require(polyconv_device_copy(device_, written ? host : own, written ? own : host,
                                   static_cast<size_t>(uses[i].bytes), stream_.get()));
    }
  };
  move(false);
  submit();
  move(true);
  wait();
  return seconds_since(begin);
}

double Subject::run_end_to_end() {
  make_host_copies();
  const polyconv_options options = options_of(request_);
  const HostClock::time_point begin = HostClock::now();
  require(
      polyconv_convolve(device_, work_.problems.data(), static_cast<int32_t>(work_.problems.size()), &options, &host_));
  return seconds_since(begin);
}

} // namespace polyconv::bench
