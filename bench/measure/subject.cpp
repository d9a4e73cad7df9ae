// subject.cpp - one problem made ready on one kernel.
// SPDX-License-Identifier: Apache-2.0
#include "subject.hpp"

#include <chrono>

#include "../statistics.hpp"
#include "../text.hpp"
#include "tensors.hpp"

namespace polyconv::bench {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace

void require(polyconv_status status) {
  if (status != POLYCONV_SUCCESS) throw Unable(polyconv_status_string(status), polyconv_last_error());
}

polyconv_options options_of(const PlanRequest &request) {
  polyconv_options options;
  polyconv_options_init(&options);
  if (!request.kernel.empty()) options.kernel = request.kernel.c_str();
  options.math = request.math;
  options.threads = request.threads;
  options.determinism = request.determinism;
  options.workspace_limit = request.workspace_limit;
  options.fallback = POLYCONV_FALLBACK_ALLOW; // the row says that it is one
  options.bind = 1;
  return options;
}

Subject::Subject(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
                 const std::string &workspace, int64_t memory_limit)
    : device_(device), work_(work), request_(request) {
  polyconv_buffers_init(&buffers_);
  polyconv_buffers_init(&host_);
  has_streams_ = polyconv_stream_create(device_, &stream_) == POLYCONV_SUCCESS && stream_ != nullptr;
  try {
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
      require(polyconv_bind(plan_.get(), &buffers_, &bound));
      bound_.reset(bound);
    }
    first_us_ = run(1) * 1e6;
  } catch (...) {
    if (has_streams_) polyconv_stream_destroy(device_, stream_);
    throw;
  }
}

Subject::~Subject() {
  if (has_streams_) polyconv_stream_destroy(device_, stream_);
}

void Subject::plan(const PlanRequest &request) {
  const polyconv_options options = options_of(request);
  std::vector<double> times;
  double total = 0;
  // A plan may start threads; a slow one is not made often.
  while (times.size() < 9 && (times.empty() || total < 0.05)) {
    plan_.reset();
    polyconv_plan *plan = nullptr;
    const Clock::time_point begin = Clock::now();
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
    const Clock::time_point begin = Clock::now();
    require(
        polyconv_weights_create(plan_.get(), static_cast<int32_t>(i), buffers_.weights[i], nullptr, stream_, &weights));
    packed_[i].reset(weights);
    wait();
    seconds += seconds_since(begin);
    buffers_.packed[i] = weights;
    pack_us_ = seconds * 1e6;
  }
}

void Subject::wait() {
  if (has_streams_) require(polyconv_stream_synchronize(device_, stream_));
}

void Subject::run_once() {
  require(bound_ ? polyconv_run_bound(bound_.get(), stream_) : polyconv_run(plan_.get(), &buffers_, stream_));
}

double Subject::run(int64_t repeats) {
  const Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < repeats; ++i) run_once();
  wait();
  return seconds_since(begin);
}

std::optional<double> Subject::run_between_events(int64_t repeats) {
  void *start = nullptr, *stop = nullptr;
  if (!has_streams_ || polyconv_event_create(device_, &start) != POLYCONV_SUCCESS) return std::nullopt;
  std::optional<double> seconds;
  if (polyconv_event_create(device_, &stop) == POLYCONV_SUCCESS) {
    polyconv_event_record(device_, start, stream_);
    for (int64_t i = 0; i < repeats; ++i) run_once();
    polyconv_event_record(device_, stop, stream_);
    double milliseconds = 0;
    if (polyconv_event_synchronize(device_, stop) == POLYCONV_SUCCESS &&
        polyconv_event_elapsed(device_, start, stop, &milliseconds) == POLYCONV_SUCCESS)
      seconds = milliseconds * 1e-3;
    polyconv_event_destroy(device_, stop);
  }
  polyconv_event_destroy(device_, start);
  return seconds;
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
  if (!has_streams_) return run(1); // the CPU reads the caller's memory
  make_host_copies();
  const std::vector<TensorUse> uses = tensors_of(work_);
  const Clock::time_point begin = Clock::now();
  const auto move = [&](bool written) {
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].written != written || uses[i].bytes == 0 || !uses[i].per_run()) continue;
      void *own = pointer_of(buffers_, uses[i]), *host = host_memory_[i].data();
      require(polyconv_device_copy(device_, written ? host : own, written ? own : host,
                                   static_cast<size_t>(uses[i].bytes), stream_));
    }
  };
  move(false);
  run_once();
  move(true);
  wait();
  return seconds_since(begin);
}

double Subject::run_end_to_end() {
  make_host_copies();
  const polyconv_options options = options_of(request_);
  const Clock::time_point begin = Clock::now();
  require(
      polyconv_convolve(device_, work_.problems.data(), static_cast<int32_t>(work_.problems.size()), &options, &host_));
  return seconds_since(begin);
}

} // namespace polyconv::bench
