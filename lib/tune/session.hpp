// session.hpp - many problems tuned one after another, with a budget for all of them and somebody who watches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem/problem.hpp"
#include "select/select.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace polyconv {

// Where a session is: polyconv_tune_progress with strings of its own.
struct TuneProgress {
  size_t problem = 0;
  bool finished = false;
  std::string token, kernel, reason;
  double us = 0;
  int32_t timed = 0, known = 0;
  double elapsed_ms = 0, left_ms = -1;
  int32_t unkept = 0;
};

// False ends the session.
using TuneWatch = std::function<bool(const TuneProgress &)>;

// Times the candidates of each layer and keeps the times. `budget_ms` is for all of them, shared evenly by those to
// come, 0 for no such limit; options.tuning_budget_ms is the most for one of them, likewise. Throws Failure.
void tune_all(const polyconv_device &device, const std::vector<Layer> &problems, const Options &options,
              int64_t budget_ms, const TuneWatch &watch);

} // namespace polyconv
