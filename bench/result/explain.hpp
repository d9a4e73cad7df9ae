// explain.hpp - one candidate of an explanation, as it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace polyconv::bench {

struct Candidate {
  std::string kernel, reason;
  bool accepted, chosen, fallback;
  double estimate_us;
  int64_t workspace_bytes;
  bool measured;
  // Of chains.
  std::string grouping, note;
  int64_t saved_bytes, recomputed_outputs, blocks, shared_bytes, threads;
  double occupancy;
};

} // namespace polyconv::bench
