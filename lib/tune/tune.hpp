// tune.hpp - options.tuning_budget_ms: candidates are timed on scratch buffers, in order of their estimates, until the
// budget is spent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/decide.hpp"

#include <vector>

namespace polyconv {

// Replaces the estimates of as many accepted candidates as the budget allows (of one at least) by measured times and
// moves the measured ones to the front, fastest first. What the tuning database knows is not timed again, and what is
// timed goes into it.
void tune(const Question &question, const Group &group, std::vector<Candidate> *candidates);

// Times as many groupings of a chain as a whole as half of the budget allows, one run of each in turn, that without
// fusing always among them; those with more layers on fallbacks than the first are left out. One that fails, in
// whichever run, keeps its estimate and says why in `failure`.
void tune_whole(const Question &question, const std::vector<Layer> &layers, std::vector<Grouping> *groupings);

} // namespace polyconv
