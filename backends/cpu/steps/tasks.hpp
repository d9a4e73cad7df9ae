// tasks.hpp - how a step's items are shared out among threads. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/parts.hpp"
#include "cpu/isa.hpp"

#include <memory>

namespace polyconv::cpu {

class StepTasks {
 public:
  // `serial_us`: what all items take on one thread.
  StepTasks(const polyconv_policy &policy, double serial_us, int64_t items)
      : items_(items), tasks_(std::min(tasks_for(policy, serial_us), items)) {
    if (tasks_ > 1) parallel_ = sdk::make_parallel(policy);
  }

  // body(first, last) for every task's items [first, last).
  template <class Body>
  void run(const Body &body) const {
    run_items(parallel_, items_, tasks_, nullptr, 0, [&](const ItemShare &share) { body(share.first, share.last); });
  }

  const std::unique_ptr<sdk::Parallel> &parallel() const { return parallel_; } // null where there is one task

 private:
  int64_t items_, tasks_;
  std::unique_ptr<sdk::Parallel> parallel_;
};

} // namespace polyconv::cpu
