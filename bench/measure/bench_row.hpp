// bench_row.hpp - one row of `run`: a problem, a device, a plan request and perhaps a baseline, measured into a record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include <polyconv/sdk/check.hpp>

#include "../record.hpp"
#include "baseline.hpp"

namespace polyconv::bench {

struct Job {
  Work work;
  std::string device; // "cpu"
  PlanRequest request;
  std::string math; // the word of request.math
  std::string baseline;
};

enum class Verify { kAuto, kAlways, kNever };

struct RunSettings {
  double min_seconds = 0.1;
  bool cold = false;
  bool transfers = false;
  bool end_to_end = false;
  Verify verify = Verify::kAuto;
};

// Measures jobs one after the other on shared buffers.
class Bench {
 public:
  explicit Bench(const RunSettings &settings);
  ~Bench();

  // Never throws for what a job can be wrong about: that becomes the record's status and reason.
  Record measure(const Job &job);

 private:
  struct Lane; // what belongs to one device
  Lane &lane_of(const std::string &device);
  RateMeter &meter_of(int threads);
  void measure_into(Record &record, const Job &job);
  void time_into(Record &record, const Job &job, Lane &lane, Subject &subject);
  void baseline_into(Record &record, const Job &job, Lane &lane, Subject &subject, const TimingRequest &timing);
  void extras_into(Record &record, Subject &subject);
  void rates_into(Record &record, const Job &job);
  void check_into(Record &record, const Job &job, Lane &lane);
  check::Case &oracle_of(const Work &work);

  RunSettings settings_;
  std::optional<Ceilings> ceilings_;
  std::map<std::string, std::unique_ptr<Lane>> lanes_;
  std::map<int, std::unique_ptr<RateMeter>> meters_; // by threads
  std::unique_ptr<RateMeter> flusher_;
  std::unique_ptr<check::Case> oracle_; // of the last problem checked: rows of one problem share it
  std::string oracle_token_;
};

} // namespace polyconv::bench
