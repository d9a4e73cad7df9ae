// planned.hpp - one layer or chain planned on a kernel, and such a plan made ready on tensors: packed and bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <optional>
#include <string>
#include <vector>

#include "api/handles.hpp"
#include "work/work.hpp"

namespace polyconv::bench {

// The options of a plan that a command line can set.
struct PlanRequest {
  std::string kernel; // a glob, "" for the library's choice
  int32_t math = POLYCONV_MATH_STRICT;
  int32_t threads = 0;
  int32_t determinism = POLYCONV_DETERMINISM_RUN;
  int64_t workspace_limit = -1;
  std::string grouping; // "" for the planner's choice
  int64_t shared_memory_limit = -1;
  polyconv_observer observer = nullptr;
  void *observer_context = nullptr;
  int64_t tuning_ms = 0; // options.tuning_budget_ms
};
polyconv_options options_of(const PlanRequest &request); // points into `request`

class Planned {
 public:
  // Plans, a few times where that is quick, to know what it takes. Throws Unable.
  Planned(const polyconv_device *device, const Work &work, const PlanRequest &request);

  const polyconv_plan *get() const { return plan_.get(); }
  const polyconv_plan_info &info() const { return info_; }
  double plan_us() const { return plan_us_; }
  size_t layers() const { return packs_.size(); }
  bool packs(size_t layer) const { return packs_[layer]; } // whether its weights have another format than raw
  int64_t weights_bytes() const { return weights_bytes_; } // packed

 private:
  PlanHandle plan_;
  polyconv_plan_info info_ = sized<polyconv_plan_info>();
  double plan_us_ = 0;
  std::vector<bool> packs_;
  int64_t weights_bytes_ = 0;
};

class Ready {
 public:
  // Packs the weights of `buffers` and binds, on a device's `stream` and waiting for it; the tensors and the plan must
  // outlive this. Throws Unable.
  Ready(const polyconv_device *device, const Planned &planned, const polyconv_buffers &buffers, void *stream);

  void submit(void *stream) const; // without waiting

  bool bound() const { return bound_ != nullptr; }
  const polyconv_buffers &buffers() const { return buffers_; }
  std::optional<double> pack_us() const { return pack_us_; } // none where all weights are raw
  std::optional<double> bind_us() const { return bind_us_; }

 private:
  const polyconv_plan *plan_;
  polyconv_buffers buffers_;
  std::vector<WeightsHandle> packed_;
  BoundHandle bound_;
  std::optional<double> pack_us_, bind_us_;
};

} // namespace polyconv::bench
