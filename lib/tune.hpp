// tune.hpp - options.tuning_budget_ms: candidates are timed on scratch buffers, in order of their estimates, until the
// budget is spent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "select.hpp"

#include <vector>

namespace polyconv {

// Replaces the estimates of as many accepted candidates as the budget allows (of one at least) by measured times and
// moves the measured ones to the front, fastest first. Remembers nothing.
void tune(const Question &question, const Group &group, std::vector<Candidate> *candidates);

} // namespace polyconv
