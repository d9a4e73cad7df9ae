// told.hpp - a plan as one line of log, with the command that makes and times it again (docs/environment.md, The log).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"

namespace polyconv {

// One line at level info, where somebody listens at that level.
void tell(const polyconv_plan &plan);

} // namespace polyconv
