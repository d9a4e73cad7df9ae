// chain.hpp - groups of neighbouring layers, each taken by one kernel, as requests of their own, and the steps
// that groups come to together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem/problem.hpp"
#include "select/layout.hpp"

#include <vector>

namespace polyconv {

struct Part {
  Group group;
  Candidate candidate;
};

// Layers [first, first + count) as a self-contained request. An empty batch is asked about as a batch of one where
// nothing will run, so that kernels need not think of it.
Group make_group(const std::vector<Layer> &layers, int32_t first, int32_t count);

// The steps and workspace of the whole.
Layout lay_out(const std::vector<Layer> &layers, const std::vector<Part> &parts);

// A plan of this problem has nothing to do: what it writes is empty.
bool nothing_to_run(const std::vector<Layer> &layers);

} // namespace polyconv
