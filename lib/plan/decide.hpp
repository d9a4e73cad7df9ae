// decide.hpp - how a whole problem is cut into groups of neighbouring layers, each taken by one kernel: every way
// to cut a chain competes by estimated time and, with a tuning budget, by measured time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/chain.hpp"
#include "plan/tuner.hpp"

#include <memory>
#include <string>
#include <vector>

namespace polyconv {

// One way to cut a chain, each group on its best kernel.
struct Grouping {
  std::vector<std::shared_ptr<const Part>> parts; // in the order of the layers
  double us = 0;                                  // of its parts together, or measured as a whole
  bool measured = false;
  Provenance provenance; // of `us`, as a whole or part by part: then the earliest day
  std::string failure;   // why it cannot be taken: failed while it was timed, or breaks a limit; "" where it can

  std::string words() const;   // as options.grouping: "2+2", "none"
  std::string kernels() const; // full names, joined by " + "
  double predicted_us() const; // what the heuristics say, also after measuring
  size_t fallback_layers() const;
};

struct Decision {
  std::vector<Part> parts;     // that together are the whole problem; none where nobody takes it
  double us = 0;               // that they take
  Provenance provenance;       // of that time
  std::vector<Grouping> tried; // of a chain, the chosen one first, then by time; the likeliest, and always "none"
};

// *why (which may be NULL) says why there are no parts. The question is as the tuner has prepared it.
Decision decide(const Question &question, const Tuner &tuner, const std::vector<Layer> &layers, std::string *why);

// Bytes that fused layers neither write nor read again, in one run: what lies between them.
int64_t saved_bytes(const Part &part);

} // namespace polyconv
