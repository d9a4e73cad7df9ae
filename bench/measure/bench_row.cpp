// bench_row.cpp - one row of `run`.
// SPDX-License-Identifier: Apache-2.0
#include "measure/bench_row.hpp"

#include <algorithm>
#include <optional>

#include "api/notes.hpp"
#include "measure/profile.hpp"
#include "measure/trace.hpp"
#include "numbers/statistics.hpp"
#include "result/info.hpp"
#include "subject/network.hpp"
#include "subject/tensors.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// Slow rows take fewer of the samples that stand beside the median.
bool is_quick(const Record &record) {
  constexpr double kQuickUs = 1e4;
  return *record.median_us < kQuickUs;
}

// Whose library has its own faults, and no process of its own as a device has.
bool is_others(const std::string &kernel) {
  const std::string backend = backend_of(kernel);
  return backend == "onednn" || backend == "opencv";
}

bool baseline_is_others(const Job &job) {
  return !job.baseline.empty() && !is_ceiling(job.baseline) &&
         is_others(baseline_request(job.baseline, job.request, 0).kernel);
}

} // namespace

bool asks_others(const Job &job) {
  return job.device == "cpu" && (is_others(job.request.kernel) || baseline_is_others(job));
}

Lane &Bench::lane_of(const std::string &name) {
  std::unique_ptr<Lane> &lane = lanes_[name];
  if (!lane) {
    const polyconv_device *device = nullptr;
    require(polyconv_device_find(name.c_str(), &device));
    lane = std::make_unique<Lane>(device, name);
  }
  return *lane;
}

std::vector<std::string> Bench::hints() const {
  std::vector<std::string> hints;
  for (const auto &[name, lane] : lanes_) {
    const std::string hint = lane ? ceilings_hint(name, lane->ceilings) : "";
    if (!hint.empty()) hints.push_back(hint);
  }
  return hints;
}

Record Bench::measure(const Job &job) {
  if (!elsewhere_ || !asks_others(job)) return measure_here(job, "");
  begin("measuring in a process of its own");
  Elsewhere elsewhere = elsewhere_(job);
  if (!elsewhere.record) return measure_here(job, elsewhere.fate);
  elsewhere.record->requested_threads = job.request.threads;
  if (elsewhere.record->status == "good") lane_of(job.device); // whose ceilings there are hints of
  return *elsewhere.record;
}

// `fate`: what others' libraries came to elsewhere, if anything; they are not asked again.
Record Bench::measure_here(const Job &job, const std::string &fate) {
  Record record = make_record(job.work, job.device, job.request.kernel);
  record.requested_math = job.math;
  record.cache = settings_.cache == Cache::kCold ? "cold" : "warm";
  record.beside = settings_.beside;
  record.baseline = job.baseline;
  record.technique = job.technique;
  record.requested_threads = job.request.threads;
  record.grouping = job.request.grouping;
  if (job.request.threads > 0) record.threads = job.request.threads;
  try {
    if (!job.work.invalid.empty()) throw Unable("invalid argument", job.work.invalid);
    measure_into(record, job, fate);
  } catch (const Unable &unable) {
    record.status = unable.status();
    record.reason = unable.what();
  } catch (const std::bad_alloc &) {
    record.status = "out of memory";
    record.reason = "the bench ran out of host memory";
  }
  return record;
}

void Bench::measure_into(Record &record, const Job &job, const std::string &fate) {
  const std::string backend = backend_of(job.request.kernel);
  if (backend.find_first_of("*?,") == std::string::npos && !backend.empty()) {
    record.backend = backend;
    const std::string missing = why_missing(backend);
    if (!missing.empty()) throw Unable("unavailable", missing);
  }
  if (!fate.empty() && is_others(job.request.kernel)) throw Unable("device error", fate);
  if (!fate.empty()) record.baseline_reason = "device error: " + fate;
  Lane &lane = lane_of(job.device);
  record.gflop = flops_of(job.work) * 1e-9;
  record.bytes = compulsory_bytes(job.work);
  begin("checking");
  checker_.check(record, job, lane);
  begin("planning");
  if (job.work.is_network())
    measure_network(record, job, lane);
  else
    measure_problem(record, job, lane);
}

void Bench::measure_problem(Record &record, const Job &job, Lane &lane) {
  lane.pool.begin(tensor_bytes(job.work), lane.memory_limit);
  Subject subject(lane.device, job.work, job.request, lane.pool, "workspace", lane.memory_limit);

  const polyconv_plan_info &info = subject.planned().info();
  if (!record.kernel.empty() && record.kernel != subject.kernel())
    record.check = "none: the check ran " + record.kernel;
  record.kernel = subject.kernel();
  record.note = note_of(record.kernel);
  record.backend = backend_of(record.kernel);
  record.backend_version = version_of(record.backend);
  record.math = info.math;
  if (!subject.has_streams()) record.threads = info.threads;
  record.fallback = info.fallback != 0;
  record.workspace_bytes = info.workspace_bytes;
  record.weights_bytes = subject.planned().weights_bytes();
  record.estimate_us = info.estimate_us;
  record.plan_us = subject.planned().plan_us();
  record.pack_us = subject.ready().pack_us();
  record.first_us = subject.first_us();

  time_into(record, job, lane, subject);
  extras_into(record, subject);
  rates_into(record, job, lane);
  if (settings_.trace) begin("tracing");
  if (settings_.trace)
    trace_steps(*settings_.trace, lane.device, job.device, job.work, job.request, lane.pool, lane.memory_limit);
  if (settings_.profile) begin("profiling");
  if (settings_.profile)
    record.profile = profile(lane.device, job.work, job.request, subject, lane.pool, lane.memory_limit);
}

// Planned, ready and right.
std::unique_ptr<Runnable> Bench::runnable_baseline(Record &record, const Job &job, const PlanRequest &plan,
                                                   Lane &lane) {
  const std::string workspace = "workspace of the baseline";
  const std::string rounding = baseline_rounding(job.baseline, job.request.math, job.work);
  if (job.work.is_network()) {
    auto network = std::make_unique<Network>(lane.device, job.work, plan, lane.pool, workspace, lane.memory_limit);
    record.baseline_note = rounding;
    return network;
  }
  std::string left_out;
  const Work work = baseline_work(job.baseline, job.work, &left_out);
  auto other = std::make_unique<Subject>(lane.device, work, plan, lane.pool, workspace, lane.memory_limit);
  std::vector<std::string> notes = {left_out, rounding, note_of(other->kernel())};
  notes.erase(std::remove(notes.begin(), notes.end(), ""), notes.end());
  record.baseline_note = join(notes, ", ");
  checker_.check_baseline(record, work, plan, other->planned().get(), lane);
  return other;
}

// The baseline as a runnable, or as the sampler of a ceiling; neither where there is none, and why.
std::unique_ptr<Runnable> Bench::baseline_of(Record &record, const Job &job, Lane &lane, Sampler &ceiling) {
  if (job.baseline.empty() || !record.baseline_reason.empty()) return nullptr;
  try {
    if (is_ceiling(job.baseline)) {
      RateMeter &meter = lane.meter_of(job.device, static_cast<int>(record.threads.value_or(1)));
      ceiling = ceiling_sampler(job.baseline, job.work, job.request.math, meter);
      ceiling(1); // a device may not know its rate
      record.baseline_kernel = job.baseline;
      return nullptr;
    }
    const PlanRequest plan = baseline_request(job.baseline, job.request, settings_.baseline_ms);
    const std::string missing = why_missing(backend_of(plan.kernel));
    if (!missing.empty()) throw Unable("unavailable", missing);
    std::unique_ptr<Runnable> other = runnable_baseline(record, job, plan, lane);
    record.baseline_kernel = other->kernel();
    record.baseline_math = other->math();
    return other;
  } catch (const Unable &unable) {
    ceiling = nullptr;
    record.baseline_reason = unable.status() + ": " + unable.what();
    return nullptr;
  }
}

// A device's rows are timed by its events, and those that are compared, and networks, in a graph, where the host's
// speed does not count; both sides by the same clock.
Clock Bench::clock_for(const Job &job, Runnable &product, Runnable *baseline) const {
  if (!product.has_streams()) return Clock::kWall;
  if (!settings_.graph && job.baseline.empty() && !job.work.is_network()) return Clock::kEvents;
  try {
    product.run(1, Clock::kGraph);
    if (baseline) baseline->run(1, Clock::kGraph);
    return Clock::kGraph;
  } catch (const Unable &) {
    if (settings_.graph) throw;
    return Clock::kEvents;
  }
}

void Bench::time_into(Record &record, const Job &job, Lane &lane, Runnable &product) {
  Sampler ceiling;
  if (!job.baseline.empty()) begin("finding the baseline of");
  const std::unique_ptr<Runnable> other = baseline_of(record, job, lane, ceiling);
  const Clock clock = clock_for(job, product, other.get());
  const bool on_host = clock == Clock::kWall;
  Lead cold_lead; // a device forgets just before what is timed, the host before each sample
  if (!on_host) cold_lead = [&lane](void *stream) { lane.enqueue_flush(stream); };
  const Lead lead = settings_.cache == Cache::kCold ? cold_lead : Lead();
  const auto sampler_of = [clock, &lead](Runnable &timed) -> Sampler {
    return [clock, &lead, &timed](int64_t repeats) { return timed.run(repeats, clock, lead); };
  };
  TimingRequest request;
  request.min_seconds = settings_.min_seconds;
  request.cold = settings_.cache == Cache::kCold;
  request.settle = on_host;
  if (!on_host) request.short_sample = kShortOnDevice;
  request.flush = [on_host, &lane] {
    if (on_host) lane.flush_cpu();
  };
  begin("timing");
  const Timing timing = time_interleaved(sampler_of(product), other ? sampler_of(*other) : ceiling, request);
  record.clock = clock_name(clock);
  record.median_us = median(timing.product_us);
  const Interval interval = median_interval(timing.product_us);
  record.median_low_us = interval.low;
  record.median_high_us = interval.high;
  record.p95_us = percentile(timing.product_us, 0.95);
  record.min_us = percentile(timing.product_us, 0);
  record.samples = static_cast<int64_t>(timing.product_us.size());
  if (!timing.ratios.empty()) {
    record.baseline_us = median(timing.baseline_us);
    record.ratio = median(timing.ratios);
  }
  if (settings_.cache != Cache::kWarm) return;
  const Sampler cold = [&](int64_t repeats) { return product.run(repeats, clock, cold_lead); };
  try {
    record.cold_us = median(time_cold(cold, request.flush, is_quick(record) ? 5 : 3));
    if (*record.median_us > 0) record.cold_ratio = *record.cold_us / *record.median_us;
  } catch (const Unable &) {
    // No room for the arrays whose copy flushes: the row is good without.
  }
}

void Bench::wall_into(Record &record, Runnable &product) {
  if (!product.has_streams()) return;
  std::vector<double> wall(is_quick(record) ? 9 : 3);
  for (double &sample : wall) sample = product.run(1) * 1e6;
  record.wall_us = median(wall);
}

void Bench::extras_into(Record &record, Subject &subject) {
  wall_into(record, subject);
  std::vector<double> transfers, end_to_end;
  for (int i = 0; i < (is_quick(record) ? 9 : 3); ++i) {
    if (settings_.transfers) transfers.push_back(subject.run_with_transfers() * 1e6);
    if (settings_.end_to_end) end_to_end.push_back(subject.run_end_to_end() * 1e6);
  }
  if (!transfers.empty()) record.transfers_us = median(transfers);
  if (!end_to_end.empty()) record.end_to_end_us = median(end_to_end);
}

void Bench::rates_into(Record &record, const Job &job, const Lane &lane) {
  const double seconds = *record.median_us * 1e-6;
  if (seconds <= 0 || *record.bytes <= 0) return; // an empty batch has no rate
  record.gflops = *record.gflop / seconds;
  record.gbps = *record.bytes * 1e-9 / seconds;
  if (!lane.ceilings) return;
  const int threads = job.device == "cpu" ? static_cast<int>(record.threads.value_or(1)) : lane.processors;
  if (const auto least = seconds_at(*lane.ceilings, threads, job.work, job.request.math))
    record.roofline_pct = 100 * *least / seconds;
}

} // namespace polyconv::bench
