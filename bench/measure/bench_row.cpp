// bench_row.cpp - one row of `run`.
// SPDX-License-Identifier: Apache-2.0
#include "bench_row.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "../ceilings/device_meter.hpp"
#include "../info.hpp"
#include "../machine.hpp"
#include "../statistics.hpp"
#include "../text.hpp"
#include "profile.hpp"

namespace polyconv::bench {

namespace {

constexpr double kMemoryShare = 0.6;    // of the device's memory that one row may take
constexpr int64_t kCheckCopies = 8;     // of its tensors that a check holds: f64 values, sums, guards
constexpr double kAutoCheckFlops = 1e9; // the reference checks up to about that in a second
constexpr double kShortOnDevice = 5e-4; // seconds of a sample between events, whose own cost must not show
constexpr double kQuick = 0.01;         // seconds; slower rows take fewer of the samples that stand beside the median

// "openmp/gemm@avx512 + ..." -> the version that the backend states.
std::string version_of(const std::string &backend) {
  auto info = sized<polyconv_backend_info>();
  for (int32_t i = 0; polyconv_backend_get(i, &info) == POLYCONV_SUCCESS; ++i)
    if (backend == info.name) return info.version;
  return "";
}

} // namespace

struct Bench::Lane {
  const polyconv_device *device;
  BufferPool pool;
  int64_t memory_limit;
  int processors = 1;
  std::optional<Ceilings> ceilings;
  std::map<int, std::unique_ptr<CpuMeter>> meters; // of the CPU, by threads
  std::unique_ptr<CpuMeter> flusher;
  std::unique_ptr<DeviceMeter> device_meter; // of any other device

  Lane(const polyconv_device *handle, const std::string &name)
      : device(handle),
        pool(handle),
        memory_limit(std::numeric_limits<int64_t>::max()),
        ceilings(known_ceilings(name)) {
    auto properties = sized<polyconv_device_properties>();
    require(polyconv_device_get_properties(handle, &properties));
    if (properties.memory_bytes > 0)
      memory_limit = static_cast<int64_t>(kMemoryShare * static_cast<double>(properties.memory_bytes));
    processors = properties.compute_units;
  }

  CpuMeter &meter_of(int threads) {
    std::unique_ptr<CpuMeter> &meter = meters[threads];
    if (!meter) meter = std::make_unique<CpuMeter>(threads);
    return *meter;
  }
  DeviceMeter &meter_of_device() {
    if (!device_meter) device_meter = std::make_unique<DeviceMeter>(device);
    return *device_meter;
  }
  // A copy between arrays of twice the last cache together, by every processor: nothing of the problem stays.
  void flush_cpu() {
    if (!flusher) flusher = std::make_unique<CpuMeter>(processors, last_level_cache());
    flusher->copy("plain");
  }
};

Bench::Bench(const RunSettings &settings) : settings_(settings) {}
Bench::~Bench() = default;

Bench::Lane &Bench::lane_of(const std::string &name) {
  std::unique_ptr<Lane> &lane = lanes_[name];
  if (!lane) {
    const polyconv_device *device = nullptr;
    require(polyconv_device_find(name.c_str(), &device));
    lane = std::make_unique<Lane>(device, name);
  }
  return *lane;
}

Record Bench::measure(const Job &job) {
  Record record = make_record(job.work, job.device, job.request.kernel);
  record.requested_math = job.math;
  record.cache = settings_.cold ? "cold" : "warm";
  record.baseline = job.baseline;
  record.technique = job.technique;
  record.requested_threads = job.request.threads;
  if (job.request.threads > 0) record.threads = job.request.threads;
  try {
    if (!job.work.invalid.empty()) throw Unable("invalid argument", job.work.invalid);
    measure_into(record, job);
  } catch (const Unable &unable) {
    record.status = unable.status();
    record.reason = unable.what();
  } catch (const std::bad_alloc &) {
    record.status = "out of memory";
    record.reason = "the bench ran out of host memory";
  }
  return record;
}

void Bench::measure_into(Record &record, const Job &job) {
  const std::string backend = backend_of(job.request.kernel);
  if (backend.find_first_of("*?,") == std::string::npos && !backend.empty()) {
    record.backend = backend;
    const std::string missing = why_missing(backend);
    if (!missing.empty()) throw Unable("unavailable", missing);
  }
  Lane &lane = lane_of(job.device);
  record.gflop = flops_of(job.work) * 1e-9;
  record.bytes = compulsory_bytes(job.work);
  check_into(record, job, lane); // a kernel that is wrong is not timed: it may write anywhere
  lane.pool.begin(tensor_bytes(job.work), lane.memory_limit);
  Subject subject(lane.device, job.work, job.request, lane.pool, "workspace", lane.memory_limit);

  const polyconv_plan_info &info = subject.info();
  if (!record.kernel.empty() && record.kernel != subject.kernel())
    record.check = "none: the check ran " + record.kernel;
  record.kernel = subject.kernel();
  record.backend = backend_of(record.kernel);
  record.backend_version = version_of(record.backend);
  record.math = info.math;
  if (!subject.has_streams()) record.threads = info.threads;
  record.fallback = info.fallback != 0;
  record.workspace_bytes = info.workspace_bytes;
  record.weights_bytes = subject.weights_bytes();
  record.estimate_us = info.estimate_us;
  record.plan_us = subject.plan_us();
  record.pack_us = subject.pack_us();
  record.first_us = subject.first_us();

  time_into(record, job, lane, subject);
  extras_into(record, subject);
  rates_into(record, job, lane);
  if (settings_.profile)
    record.profile = profile(lane.device, job.work, job.request, subject, lane.pool, lane.memory_limit);
}

// The baseline as a subject, or as the sampler of a ceiling; neither where there is none, and why.
std::unique_ptr<Subject> Bench::baseline_of(Record &record, const Job &job, Lane &lane, Sampler &ceiling) {
  if (job.baseline.empty()) return nullptr;
  try {
    if (is_ceiling(job.baseline)) {
      RateMeter *meter = nullptr;
      if (job.device == "cpu")
        meter = &lane.meter_of(static_cast<int>(record.threads.value_or(1)));
      else
        meter = &lane.meter_of_device();
      ceiling = ceiling_sampler(job.baseline, job.work, *meter);
      ceiling(1); // a device may not know its rate
      record.baseline_kernel = job.baseline;
      return nullptr;
    }
    const PlanRequest plan = baseline_request(job.baseline, job.request, settings_.baseline_ms);
    const std::string missing = why_missing(backend_of(plan.kernel));
    if (!missing.empty()) throw Unable("unavailable", missing);
    auto other = std::make_unique<Subject>(lane.device, job.work, plan, lane.pool, "workspace of the baseline",
                                           lane.memory_limit);
    record.baseline_kernel = other->kernel();
    record.baseline_math = other->info().math;
    return other;
  } catch (const Unable &unable) {
    ceiling = nullptr;
    record.baseline_reason = unable.status() + ": " + unable.what();
    return nullptr;
  }
}

// A device's rows are timed by its events, and those that are compared in a graph, where the host's speed does not
// count; both sides by the same clock.
Clock Bench::clock_for(const Job &job, Subject &subject, Subject *baseline) const {
  if (!subject.has_streams()) return Clock::kWall;
  if (!settings_.graph && job.baseline.empty()) return Clock::kEvents;
  try {
    subject.run(1, Clock::kGraph);
    if (baseline) baseline->run(1, Clock::kGraph);
    return Clock::kGraph;
  } catch (const Unable &) {
    if (settings_.graph) throw;
    return Clock::kEvents;
  }
}

void Bench::time_into(Record &record, const Job &job, Lane &lane, Subject &subject) {
  Sampler ceiling;
  const std::unique_ptr<Subject> other = baseline_of(record, job, lane, ceiling);
  const Clock clock = clock_for(job, subject, other.get());
  const bool on_host = clock == Clock::kWall;
  Lead cold_lead; // a device forgets just before what is timed, the host before each sample
  if (!on_host) cold_lead = [&lane](void *stream) { lane.meter_of_device().enqueue_copy(stream); };
  const Lead lead = settings_.cold ? cold_lead : Lead();
  const auto sampler_of = [clock, &lead](Subject &timed) -> Sampler {
    return [clock, &lead, &timed](int64_t repeats) { return timed.run(repeats, clock, lead); };
  };
  TimingRequest request;
  request.min_seconds = settings_.min_seconds;
  request.cold = settings_.cold;
  request.settle = on_host;
  if (!on_host) request.short_sample = kShortOnDevice;
  request.flush = [on_host, &lane] {
    if (on_host) lane.flush_cpu();
  };
  const Timing timing = time_interleaved(sampler_of(subject), other ? sampler_of(*other) : ceiling, request);
  record.clock = clock_name(clock);
  record.median_us = median(timing.product_us);
  record.p95_us = percentile(timing.product_us, 0.95);
  record.min_us = percentile(timing.product_us, 0);
  record.samples = static_cast<int64_t>(timing.product_us.size());
  if (!timing.ratios.empty()) {
    record.baseline_us = median(timing.baseline_us);
    record.ratio = median(timing.ratios);
  }
  if (settings_.cold) return;
  const Sampler cold = [&](int64_t repeats) { return subject.run(repeats, clock, cold_lead); };
  try {
    record.cold_us = median(time_cold(cold, request.flush, *record.median_us < kQuick * 1e6 ? 5 : 3));
    if (*record.median_us > 0) record.cold_ratio = *record.cold_us / *record.median_us;
  } catch (const Unable &) {
    // No room for the arrays whose copy flushes: the row is good without.
  }
}

void Bench::extras_into(Record &record, Subject &subject) {
  const int samples = *record.median_us < kQuick * 1e6 ? 9 : 3;
  std::vector<double> wall, transfers, end_to_end;
  for (int i = 0; i < samples; ++i) {
    if (subject.has_streams()) wall.push_back(subject.run(1) * 1e6);
    if (settings_.transfers) transfers.push_back(subject.run_with_transfers() * 1e6);
    if (settings_.end_to_end) end_to_end.push_back(subject.run_end_to_end() * 1e6);
  }
  if (!wall.empty()) record.wall_us = median(wall);
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
  const auto fma = lane.ceilings->best(fma_kind(job.work), threads), copy = lane.ceilings->best("copy", threads);
  if (!fma || !copy) return;
  // The time that the busier of the two units needs at the least, over the time taken.
  const double floor = std::max(*record.gflop * 1e9 / *fma, *record.bytes / *copy);
  record.roofline_pct = 100 * floor / seconds;
}

check::Case &Bench::oracle_of(const Work &work) {
  if (!oracle_ || oracle_token_ != work.token) {
    oracle_ = std::make_unique<check::Case>(work.problems);
    oracle_token_ = work.token;
  }
  return *oracle_;
}

void Bench::check_into(Record &record, const Job &job, Lane &lane) {
  if (settings_.verify == Verify::kNever) return;
  if (settings_.verify == Verify::kAuto && *record.gflop * 1e9 > kAutoCheckFlops) {
    record.check = "left out: more than 1 GFLOP; --verify always checks it";
    return;
  }
  if (tensor_bytes(job.work) > lane.memory_limit / kCheckCopies) {
    record.check = "left out: checking it takes more memory than this machine has to spare";
    return;
  }
  const check::Result result = oracle_of(job.work).run(check::Mode::Random, lane.device, options_of(job.request));
  if (result.verdict == check::Verdict::Unsupported) return; // planning will say it better
  record.check = check::verdict_name(result.verdict);
  record.kernel = result.kernel;
  record.math = result.math;
  if (result.good() || result.verdict == check::Verdict::Wrong) {
    record.max_abs_err = result.max_abs_err;
    record.rel_l2_err = result.rel_l2_err;
  }
  if (result.verdict == check::Verdict::Wrong) throw Unable("wrong", result.sentence);
}

} // namespace polyconv::bench
