// subject.hpp - one problem made ready on one kernel: planned, packed, bound, run once; what is timed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../handles.hpp"
#include "../work.hpp"
#include "buffers.hpp"

namespace polyconv::bench {

// A row cannot be measured: the words of its status, and why.
class Unable : public std::runtime_error {
 public:
  Unable(std::string status, const std::string &reason) : std::runtime_error(reason), status_(std::move(status)) {}
  const std::string &status() const { return status_; }

 private:
  std::string status_;
};

// Throws Unable with the library's sentence unless `status` is success.
void require(polyconv_status status);

// The options of a plan that a command line can set.
struct PlanRequest {
  std::string kernel; // a glob, "" for the library's choice
  int32_t math = POLYCONV_MATH_STRICT;
  int32_t threads = 0;
  int32_t determinism = POLYCONV_DETERMINISM_RUN;
  int64_t workspace_limit = -1;
};
polyconv_options options_of(const PlanRequest &request); // points into `request`

// Bytes of all tensors of a layer or chain, those between layers left out.
int64_t tensor_bytes(const Work &work);

// Bytes that must move at least: input, weights and output once.
double compulsory_bytes(const Work &work);
double flops_of(const Work &work);

class Subject {
 public:
  // Plans, packs and runs once, each timed. Two subjects of one problem share buffers; `workspace` names the role of
  // the workspace, which they do not share. Throws Unable.
  Subject(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
          const std::string &workspace, int64_t memory_limit);
  ~Subject();
  Subject(const Subject &) = delete;
  Subject &operator=(const Subject &) = delete;

  // Runs `repeats` times and waits: seconds by the wall clock for all of them.
  double run(int64_t repeats);
  // The same between two events of the device; none where it has none.
  std::optional<double> run_between_events(int64_t repeats);
  // With the input copied from host memory before and the result back after.
  double run_with_transfers();
  // One polyconv_convolve on host pointers.
  double run_end_to_end();

  const polyconv_plan_info &info() const { return info_; }
  std::string kernel() const { return info_.kernel; }
  double plan_us() const { return plan_us_; }
  std::optional<double> pack_us() const { return pack_us_; }
  double first_us() const { return first_us_; }
  int64_t weights_bytes() const { return weights_bytes_; }

 private:
  void plan(const PlanRequest &request);
  void pack();
  void attach(BufferPool &pool, const std::string &workspace);
  void run_once();
  void wait();
  void make_host_copies();

  const polyconv_device *device_;
  const Work &work_;
  PlanRequest request_;
  bool has_streams_ = false; // false on the CPU, where everything is done on return
  void *stream_ = nullptr;
  PlanHandle plan_;
  polyconv_plan_info info_ = sized<polyconv_plan_info>();
  std::vector<WeightsHandle> packed_;
  polyconv_buffers buffers_;
  BoundHandle bound_;
  double plan_us_ = 0, first_us_ = 0;
  std::optional<double> pack_us_;
  int64_t weights_bytes_ = 0;
  polyconv_buffers host_; // the same tensors in host memory, for end to end and transfers
  std::vector<std::vector<unsigned char>> host_memory_;
};

} // namespace polyconv::bench
