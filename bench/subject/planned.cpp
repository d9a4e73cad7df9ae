// planned.cpp - one layer or chain planned on a kernel, and such a plan made ready on tensors.
// SPDX-License-Identifier: Apache-2.0
#include "subject/planned.hpp"

#include "numbers/statistics.hpp"
#include "subject/host_clock.hpp"

namespace polyconv::bench {

polyconv_options options_of(const PlanRequest &request) {
  polyconv_options options;
  polyconv_options_init(&options);
  if (!request.kernel.empty()) options.kernel = request.kernel.c_str();
  options.math = request.math;
  options.threads = request.threads;
  options.determinism = request.determinism;
  options.workspace_limit = request.workspace_limit;
  if (!request.grouping.empty()) options.grouping = request.grouping.c_str();
  options.shared_memory_limit = request.shared_memory_limit;
  options.tuning_budget_ms = request.tuning_ms;
  options.fallback = POLYCONV_FALLBACK_ALLOW; // the row says that it is one
  options.bind = 1;
  options.observer = request.observer;
  options.observer_context = request.observer_context;
  return options;
}

Planned::Planned(const polyconv_device *device, const Work &work, const PlanRequest &request) {
  const polyconv_options options = options_of(request);
  const auto layers = static_cast<int32_t>(work.problems.size());
  std::vector<double> times;
  double total = 0;
  // A plan may start threads; a slow one is not made often.
  while (times.size() < 9 && (times.empty() || total < 0.05)) {
    plan_.reset();
    polyconv_plan *plan = nullptr;
    const HostClock::time_point begin = HostClock::now();
    const polyconv_status status = polyconv_plan_create(device, work.problems.data(), layers, &options, &plan);
    times.push_back(seconds_since(begin));
    total += times.back();
    require(status);
    plan_.reset(plan);
  }
  plan_us_ = median(times) * 1e6;
  require(polyconv_plan_get_info(plan_.get(), &info_));
  for (int32_t layer = 0; layer < layers; ++layer) {
    const char *format = nullptr;
    int64_t bytes = 0;
    require(polyconv_plan_weights(plan_.get(), layer, &format, &bytes));
    packs_.push_back(std::string(format) != "raw");
    if (packs_.back()) weights_bytes_ += bytes;
  }
}

Ready::Ready(const polyconv_device *device, const Planned &planned, const polyconv_buffers &buffers, void *stream)
    : plan_(planned.get()), buffers_(buffers) {
  packed_.resize(planned.layers());
  double seconds = 0;
  for (size_t layer = 0; layer < packed_.size(); ++layer) {
    if (!planned.packs(layer)) continue;
    polyconv_weights *weights = nullptr;
    const HostClock::time_point begin = HostClock::now();
    require(polyconv_weights_create(plan_, static_cast<int32_t>(layer), buffers_.weights[layer], nullptr, stream,
                                    &weights));
    packed_[layer].reset(weights);
    if (stream) require(polyconv_stream_synchronize(device, stream));
    seconds += seconds_since(begin);
    buffers_.packed[layer] = weights;
    pack_us_ = seconds * 1e6;
  }
  if (!planned.info().needs_bind) return;
  polyconv_bound *bound = nullptr;
  const HostClock::time_point begin = HostClock::now();
  require(polyconv_bind(plan_, &buffers_, &bound));
  bind_us_ = seconds_since(begin) * 1e6;
  bound_.reset(bound);
}

void Ready::submit(void *stream) const {
  require(bound_ ? polyconv_run_bound(bound_.get(), stream) : polyconv_run(plan_, &buffers_, stream));
}

} // namespace polyconv::bench
