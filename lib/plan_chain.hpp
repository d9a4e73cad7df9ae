// plan_chain.hpp - how a whole problem is cut into groups of neighbouring layers, each taken by one kernel: a fused
// kernel competes with the layers one by one, by estimated time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_layout.hpp"
#include "problem.hpp"

#include <string>
#include <vector>

namespace polyconv {

struct Part {
  Group group;
  Candidate candidate;
};

// Layers [first, first + count) as a self-contained request. An empty batch is asked about as a batch of one where
// nothing will run, so that kernels need not think of it.
Group make_group(const std::vector<Layer> &layers, int32_t first, int32_t count);

// Whether these layers may be fused: nobody outside needs what lies between them.
bool may_fuse(const std::vector<Layer> &layers, int32_t first, int32_t count);

// The cheapest parts that together are the whole problem; empty where there are none. *why then says it.
std::vector<Part> decide(const Question &question, const std::vector<Layer> &layers, std::string *why);

// The steps and workspace of the whole.
Layout lay_out(const std::vector<Layer> &layers, const std::vector<Part> &parts);

// A plan of this problem has nothing to do: the batch is empty and nothing but data is written.
bool nothing_to_run(const std::vector<Layer> &layers);

} // namespace polyconv
