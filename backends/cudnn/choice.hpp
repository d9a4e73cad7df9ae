// choice.hpp - which engine of cuDNN, in which order of the tensors: the first that the heuristics propose, or the
// fastest of all that exist where there is time to measure them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "way.hpp"

namespace polyconv::cudnn {

struct Choice {
  std::shared_ptr<const Way> way;
  std::shared_ptr<const Execution> execution;
  std::string name; // "nhwc/eng28{2=1}"
  double us;        // 0 where nothing was measured
  int measured;     // candidates, of which it was the fastest
  bool cut_short;   // there was no time for all
  bool kept;        // from another search (kept.hpp)
  int64_t workspace_bytes() const { return way->copies() + execution->workspace_bytes(); }
};

// Throws sdk::Error(UNSUPPORTED) where no engine takes the layer under the rules within `workspace_limit` bytes.
// policy.tuning_ms is the time to measure in, on scratch memory that is freed again.
Choice choose(cudnnHandle_t handle, const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit,
              const polyconv_policy &policy);

} // namespace polyconv::cudnn
