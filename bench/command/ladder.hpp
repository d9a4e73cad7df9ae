// ladder.hpp - the techniques of a kind of device in the order in which courses teach them, each on top of the last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace polyconv::bench {

struct Rung {
  const char *technique; // for people: "shared memory"
  const char *kernels;   // the glob of the kernels that use it; the library chooses among them
};

// From the first rung to the last; none for a kind of device ("cuda") that has no ladder.
std::vector<Rung> ladder_of(const std::string &device_kind);

} // namespace polyconv::bench
