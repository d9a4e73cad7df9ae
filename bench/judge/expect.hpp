// expect.hpp - a file of bars that results must hold. judge.hpp tells which do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "work/work.hpp"

namespace polyconv::bench {

// One row: `problem` in `type` under `math`, on a kernel that matches `kernel`, is at least `least_ratio` times as fast
// as `baseline`, which itself takes no longer than `baseline_max_us`; and takes no longer than `max_us`. Of suites the
// bars are about the distribution of the ratios over the layers: their geometric mean is at least `least_ratio`, no
// more than the share `most_below` of them is below `below`, each is at least `least_each`, and the baseline's times
// together are at least `least_sum` times ours. A network is one problem.
struct Expectation {
  std::string where;       // "file:line"
  std::string about;       // the problem's token, or the suites as written and what is made of them
  std::vector<Work> works; // with their type; one, or the layers of suites
  bool of_suites = false;
  std::string type, math, kernel, baseline;
  // None where the cell is empty; most_below is 0 to 1.
  std::optional<double> least_ratio, baseline_max_us, max_us, least_each, below, most_below, least_sum;

  bool concerns(const std::string &token) const;
};

// Reads a CSV file by path, or one that came with the bench by name ("cpu-foundation"), with the columns
// problem,type,math,kernel,baseline,least_ratio,baseline_max_us and perhaps max_us, layout, direction, and for suites
// only, every, least_each, below, most_below, least_sum. A row with a max_us may leave baseline and least_ratio empty;
// a row of suites needs a baseline and one bar. The problem's token may leave the type out; instead of a token
// "suite:resnet50@128+unet" names suites, with a batch for those that are to have another, `only` a glob that their
// tokens must match, and `every` leaves every n-th of what there is then, from the first on; "network:resnet50@128" is
// what --network runs, "chain:lenet28@100" what --chain does. `layout` and `direction` are what --layout and
// --direction take. Error(kUsage) naming file and line.
std::vector<Expectation> load_expectations(const std::string &name);

} // namespace polyconv::bench
