// subject.hpp - one problem made ready on one kernel: planned, packed, bound, run once; what is timed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../handles.hpp"
#include "../work.hpp"
#include "buffers.hpp"

namespace polyconv::bench {

// The options of a plan that a command line can set.
struct PlanRequest {
  std::string kernel; // a glob, "" for the library's choice
  int32_t math = POLYCONV_MATH_STRICT;
  int32_t threads = 0;
  int32_t determinism = POLYCONV_DETERMINISM_RUN;
  int64_t workspace_limit = -1;
  polyconv_observer observer = nullptr;
  void *observer_context = nullptr;
  int64_t tuning_ms = 0; // options.tuning_budget_ms
};
polyconv_options options_of(const PlanRequest &request); // points into `request`

// Bytes of all tensors of a layer or chain, those between layers left out.
int64_t tensor_bytes(const Work &work);

// Bytes that must move at least: input, weights and output once.
double compulsory_bytes(const Work &work);
double flops_of(const Work &work);

// What tells the time: the host, two events of the device around the runs, or those around one graph of the runs.
enum class Clock { kWall, kEvents, kGraph };
const char *clock_name(Clock clock); // "wall", "events", "graph"

// Work for the device before it is timed: while it is busy the host gets ahead, so that the way from the host to the
// device is not timed. Empty: a few runs, unless what is timed takes so long that it does not matter.
using Lead = std::function<void(void *stream)>;

class Subject {
 public:
  // Plans, packs and runs once, each timed. Two subjects of one problem share buffers; `workspace` names the role of
  // the workspace, which they do not share. Throws Unable.
  Subject(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
          const std::string &workspace, int64_t memory_limit);
  Subject(const Subject &) = delete;
  Subject &operator=(const Subject &) = delete;

  // Whether the device works behind the caller's back, on streams: its own events then tell the time.
  bool has_streams() const { return stream_.get() != nullptr; }

  // Runs `repeats` times and waits: seconds by the clock for all of them. By events, `lead` goes before what is timed.
  // Throws Unable where the device has no such clock, or the runs cannot be captured.
  double run(int64_t repeats, Clock clock = Clock::kWall, const Lead &lead = {});
  // With the input copied from host memory before and the result back after.
  double run_with_transfers();
  // One polyconv_convolve on host pointers.
  double run_end_to_end();

  // The parts of a run, for whoever times them apart: without waiting, and only that.
  void submit();
  void wait();
  void launch_graph(); // of one run; Unable where it cannot be captured

  bool bound() const { return bound_ != nullptr; }
  const polyconv_buffers &buffers() const { return buffers_; }
  const polyconv_plan_info &info() const { return info_; }
  std::string kernel() const { return info_.kernel; }
  double plan_us() const { return plan_us_; }
  std::optional<double> pack_us() const { return pack_us_; }
  std::optional<double> bind_us() const { return bind_us_; }
  double first_us() const { return first_us_; }
  int64_t weights_bytes() const { return weights_bytes_; }

 private:
  void plan(const PlanRequest &request);
  void pack();
  void attach(BufferPool &pool, const std::string &workspace);
  const DeviceObject &graph_of(int64_t repeats);
  void make_host_copies();

  const polyconv_device *device_;
  const Work &work_;
  PlanRequest request_;
  DeviceObject stream_, start_, stop_; // none on the CPU, where everything is done on return
  PlanHandle plan_;
  polyconv_plan_info info_ = sized<polyconv_plan_info>();
  std::vector<WeightsHandle> packed_;
  polyconv_buffers buffers_;
  BoundHandle bound_;
  std::map<int64_t, DeviceObject> graphs_; // by the number of runs in them
  double plan_us_ = 0, first_us_ = 0;
  double run_seconds_ = 0; // of the latest run between events
  std::optional<double> pack_us_, bind_us_;
  int64_t weights_bytes_ = 0;
  polyconv_buffers host_; // the same tensors in host memory, for end to end and transfers
  std::vector<std::vector<unsigned char>> host_memory_;
};

} // namespace polyconv::bench
