// bench_row.hpp - one row of `run`: a problem or network, a device, a plan request and perhaps a baseline, measured
// into a record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "measure/baseline.hpp"
#include "measure/checker.hpp"
#include "measure/job.hpp"
#include "measure/lane.hpp"
#include "result/record.hpp"
#include "subject/subject.hpp"

namespace polyconv::bench {

// Measures jobs one after the other on shared buffers.
class Bench {
 public:
  // A job that asks others' libraries, measured where nothing but its row is lost if they end the process: the record,
  // or why there is none.
  struct Elsewhere {
    std::optional<Record> record;
    std::string fate;
  };
  using MeasureElsewhere = std::function<Elsewhere(const Job &)>;

  // `stage` hears what is being done of a row, before it is: "checking", "timing". Both may be empty.
  explicit Bench(const RunSettings &settings, std::function<void(const std::string &)> stage = {},
                 MeasureElsewhere elsewhere = {})
      : settings_(settings), stage_(std::move(stage)), elsewhere_(std::move(elsewhere)), checker_(settings.verify) {}

  // Never throws for what a job can be wrong about: that becomes the record's status and reason.
  Record measure(const Job &job);

  // What is to be said of the ceilings of the devices that rows ran on, a sentence each.
  std::vector<std::string> hints() const;

 private:
  Lane &lane_of(const std::string &device);
  Record measure_here(const Job &job, const std::string &fate);
  void measure_into(Record &record, const Job &job, const std::string &fate);
  void measure_problem(Record &record, const Job &job, Lane &lane);
  void measure_network(Record &record, const Job &job, Lane &lane); // network_row.cpp
  void time_into(Record &record, const Job &job, Lane &lane, Runnable &product);
  std::unique_ptr<Runnable> runnable_baseline(Record &record, const Job &job, const PlanRequest &plan, Lane &lane);
  std::unique_ptr<Runnable> baseline_of(Record &record, const Job &job, Lane &lane, Sampler &ceiling);
  Clock clock_for(const Job &job, Runnable &product, Runnable *baseline) const;
  void wall_into(Record &record, Runnable &product);
  void extras_into(Record &record, Subject &subject);
  void rates_into(Record &record, const Job &job, const Lane &lane);
  void begin(const char *stage) const {
    if (stage_) stage_(stage);
  }

  RunSettings settings_;
  std::function<void(const std::string &)> stage_;
  MeasureElsewhere elsewhere_;
  Checker checker_;
  std::map<std::string, std::unique_ptr<Lane>> lanes_;
};

// Whether the job asks something of another's library on the CPU, as product or as baseline.
bool asks_others(const Job &job);

} // namespace polyconv::bench
