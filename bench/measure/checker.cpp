// checker.cpp - whether what a row runs is right.
// SPDX-License-Identifier: Apache-2.0
#include "measure/checker.hpp"

#include <algorithm>
#include <cmath>

#include "subject/tensors.hpp"

namespace polyconv::bench {

namespace {

constexpr int64_t kCheckCopies = 8;     // of its tensors that a check holds: f64 values, sums, guards
constexpr double kAutoCheckFlops = 1e9; // the reference checks up to about that in a second

bool too_large(const Work &work, const Lane &lane) {
  if (work.is_network())
    return std::any_of(work.layers.begin(), work.layers.end(),
                       [&](const Work &layer) { return too_large(layer, lane); });
  return tensor_bytes(work) > lane.memory_limit / kCheckCopies;
}

} // namespace

check::Case &Checker::oracle_of(const Work &work) {
  if (!oracle_ || oracle_token_ != work.token) {
    oracle_ = std::make_unique<check::Case>(work.problems);
    oracle_token_ = work.token;
  }
  return *oracle_;
}

std::optional<check::Result> Checker::check_one(Record &record, const Work &work, const Job &job, const Lane &lane) {
  const check::Result result = oracle_of(work).run(check::Mode::Random, lane.device, options_of(job.request));
  if (result.verdict == check::Verdict::Unsupported) return std::nullopt;
  record.check = check::verdict_name(result.verdict);
  if (result.good() || result.verdict == check::Verdict::Wrong) {
    record.max_abs_err = std::max(record.max_abs_err.value_or(0), result.max_abs_err);
    record.rel_l2_err = std::max(record.rel_l2_err.value_or(0), result.rel_l2_err);
    if (result.worst.bound > 0)
      record.bound_pct = std::max(record.bound_pct.value_or(0),
                                  100 * std::abs(result.worst.got - result.worst.expected) / result.worst.bound);
  }
  return result;
}

void Checker::check_layers(Record &record, const Job &job, const Lane &lane) {
  for (const Work &layer : job.work.layers) {
    const auto result = check_one(record, layer, job, lane);
    if (!result) return;
    record.layers.push_back({layer.name, layer.token, layer.count, result->kernel, result->math, false});
    if (result->verdict == check::Verdict::Wrong)
      throw Unable("wrong", "layer " + layer.title() + ": " + result->sentence);
    if (!result->good()) return;
  }
}

void Checker::check(Record &record, const Job &job, const Lane &lane) {
  if (when_ == Verify::kNever) return;
  if (when_ == Verify::kAuto && *record.gflop * 1e9 > kAutoCheckFlops) {
    record.check = "left out: more than 1 GFLOP; --verify always checks it";
    return;
  }
  if (too_large(job.work, lane)) {
    record.check = "left out: checking it takes more memory than this machine has to spare";
    return;
  }
  if (job.work.is_network()) return check_layers(record, job, lane);
  const auto result = check_one(record, job.work, job, lane);
  if (!result) return;
  record.kernel = result->kernel;
  record.math = result->math;
  if (result->verdict == check::Verdict::Wrong) throw Unable("wrong", result->sentence);
}

void Checker::check_baseline(Record &record, const Work &work, const PlanRequest &request, const polyconv_plan *plan,
                             const Lane &lane) {
  if (record.check != check::verdict_name(check::Verdict::Good)) return;
  const check::Result result = oracle_of(work).run(check::Mode::Random, lane.device, options_of(request), plan);
  if (result.verdict == check::Verdict::Wrong) throw Unable("wrong", result.sentence);
  if (result.good()) record.baseline_err = result.rel_l2_err;
}

} // namespace polyconv::bench
