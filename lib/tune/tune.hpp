// tune.hpp - who measures for planning (plan/tuner.hpp): with options.tuning_budget_ms candidates are timed on scratch
// buffers, in order of their estimates, until the budget is spent, and the database keeps the times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/tuner.hpp"

#include <functional>
#include <string>
#include <vector>

namespace polyconv {

// Told of each candidate that has a time now, and whether the database knew it; false where no more are to be timed.
using TimedCallback = std::function<bool(const Candidate &candidate, bool known)>;

// Times that no file could take, and why.
struct Unkept {
  size_t times = 0;
  std::string why;
};

// Tuner::time, with somebody who watches; may be empty.
Unkept time_candidates(const Question &question, const Group &group, std::vector<Candidate> *candidates,
                       const TimedCallback &timed = nullptr);

// The one of this process: it reads the tuning database, and what is timed goes into it.
const Tuner &tuner();

} // namespace polyconv
