// selection.hpp - the shared options of run, check and explain, understood: which problems, where, on which kernels,
// under which options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "arguments/arguments.hpp"
#include "subject/planned.hpp"

namespace polyconv::bench {

struct MathMode {
  std::string word;
  int32_t mode;
};

struct Selection {
  std::vector<Work> works;
  std::vector<std::string> devices;
  std::vector<std::string> globs;     // one row each; {""} for the library's choice
  std::vector<std::string> forbidden; // the patterns after '!', of every row
  std::vector<MathMode> maths;
  std::vector<long long> threads; // {0} for all
  int32_t determinism;
  int64_t workspace_limit, shared_memory_limit, tuning_ms;
  std::vector<std::string> groupings = {""}; // of chains, one row each; "" for the planner's choice

  PlanRequest request(const std::string &glob, const MathMode &math, long long thread_count,
                      const std::string &grouping = "") const;
};

// Error(kUsage) for a word that is not one, or where no problem is named and `problems_required`.
Selection select(const Arguments &arguments, bool problems_required);

MathMode parse_math(const std::string &word);

// "cuda" of "cuda:1".
std::string kind_of(const std::string &device);

// The globs that make sense on a device: one that names a backend of another kind is left to the device that it
// serves, if that is among `devices`.
std::vector<std::string> globs_on(const std::string &device, const Selection &selection);

// A kernel's full name "backend/kernel@config" as a glob would have it: without the config where the glob has none,
// which is about all of them, as in the library.
std::string as_named_by(const std::string &glob, const std::string &name);

// The full names "backend/kernel@config" of every kernel that serves the device and that one of its globs matches, and
// the globs that match none.
std::vector<std::string> names_on(const std::string &device, const Selection &selection);

} // namespace polyconv::bench
