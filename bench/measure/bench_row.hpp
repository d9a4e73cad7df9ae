// bench_row.hpp - one row of `run`: a problem, a device, a plan request and perhaps a baseline, measured into a record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
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
  std::string technique; // of a ladder
};

enum class Verify { kAuto, kAlways, kNever };

struct RunSettings {
  double min_seconds = 0.1;
  bool cold = false;
  bool transfers = false;
  bool end_to_end = false;
  bool profile = false;
  bool graph = false; // rows that have no baseline too
  Verify verify = Verify::kAuto;
  int64_t baseline_ms = 4000; // for a vendor's baseline to find its best engine
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
  void measure_into(Record &record, const Job &job);
  void time_into(Record &record, const Job &job, Lane &lane, Subject &subject);
  std::unique_ptr<Subject> baseline_of(Record &record, const Job &job, Lane &lane, Sampler &ceiling);
  Clock clock_for(const Job &job, Subject &subject, Subject *baseline) const;
  void extras_into(Record &record, Subject &subject);
  void rates_into(Record &record, const Job &job, const Lane &lane);
  void check_into(Record &record, const Job &job, Lane &lane);
  check::Case &oracle_of(const Work &work);

  RunSettings settings_;
  std::map<std::string, std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<check::Case> oracle_; // of the last problem checked: rows of one problem share it
  std::string oracle_token_;
};

} // namespace polyconv::bench
