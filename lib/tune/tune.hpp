// tune.hpp - who measures for planning (plan/tuner.hpp): with options.tuning_budget_ms candidates are timed on scratch
// buffers, in order of their estimates, until the budget is spent, and the database keeps the times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/tuner.hpp"

namespace polyconv {

// The one of this process: it reads the tuning database, and what is timed goes into it.
const Tuner &tuner();

} // namespace polyconv
