// parts.hpp - how many parts units of output and panels of output channels are cut into. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace polyconv::cpu {

struct Parts {
  int64_t of_units, of_panels;
  double cost; // of the largest
};

// At most `tasks` parts whose largest, cost(parts of units, parts of panels), costs least; between near equals the
// fewest parts of panels, each of which reads the source anew.
template <class Cost>
Parts choose_parts(int64_t units, int64_t panels, int64_t tasks, const Cost &cost) {
  Parts best = {1, 1, cost(1, 1)};
  for (int64_t of_units = std::min(tasks, units); of_units >= 1; --of_units) {
    const int64_t of_panels = std::min(tasks / of_units, panels);
    const double largest = cost(of_units, of_panels);
    if (largest < 0.99 * best.cost) best = {of_units, of_panels, largest};
  }
  return best;
}

} // namespace polyconv::cpu
