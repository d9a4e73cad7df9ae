// checker.hpp - whether what a row runs is right, asked before it is timed: random data against the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <polyconv/sdk/check.hpp>

#include "measure/job.hpp"
#include "measure/lane.hpp"
#include "result/record.hpp"

namespace polyconv::bench {

class Checker {
 public:
  explicit Checker(Verify when) : when_(when) {}

  // Fills the check and the errors of `record`, which knows its GFLOP, and the kernel that was checked (of a network:
  // of each layer). Throws Unable where the result is wrong, for such a kernel is not timed: it may write anywhere.
  void check(Record &record, const Job &job, const Lane &lane);

  // The same of a baseline's plan, beside a row that was checked: fills the record's baseline_err. Throws Unable where
  // it is wrong, for then it is none.
  void check_baseline(Record &record, const Work &work, const PlanRequest &request, const polyconv_plan *plan,
                      const Lane &lane);

 private:
  // None where nobody takes the work: planning will say it better.
  std::optional<check::Result> check_one(Record &record, const Work &work, const Job &job, const Lane &lane);
  void check_layers(Record &record, const Job &job, const Lane &lane);
  check::Case &oracle_of(const Work &work);

  Verify when_;
  std::unique_ptr<check::Case> oracle_; // of the last problem checked: rows of one problem share it
  std::string oracle_token_;
};

} // namespace polyconv::bench
