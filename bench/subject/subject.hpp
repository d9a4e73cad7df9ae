// subject.hpp - one problem made ready on one kernel: planned, packed, bound, run once; what is timed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <optional>
#include <string>
#include <vector>

#include "subject/buffers.hpp"
#include "subject/planned.hpp"
#include "subject/runnable.hpp"

namespace polyconv::bench {

class Subject final : public Runnable {
 public:
  // Plans, packs and runs once, each timed. Two subjects of one problem share buffers; `workspace` names the role of
  // the workspace, which they do not share. Throws Unable.
  Subject(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
          const std::string &workspace, int64_t memory_limit);

  void submit() override { ready_.submit(stream()); }
  std::string kernel() const override { return planned_.info().kernel; }
  std::string math() const override { return planned_.info().math; }

  // One run with the input copied from host memory before and the result back after; seconds by the host's clock.
  double run_with_transfers();
  // One polyconv_convolve on host pointers.
  double run_end_to_end();

  const Planned &planned() const { return planned_; }
  const Ready &ready() const { return ready_; }
  double first_us() const { return first_us_; }

 private:
  polyconv_buffers attach(BufferPool &pool, const std::string &workspace, int64_t memory_limit) const;
  void make_host_copies();

  const Work work_;
  PlanRequest request_;
  Planned planned_;
  Ready ready_;
  double first_us_;
  polyconv_buffers host_; // the same tensors in host memory, for end to end and transfers
  std::vector<std::vector<unsigned char>> host_memory_;
};

} // namespace polyconv::bench
