// expect.hpp - a file of bars that results must hold, and every way in which they may not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record.hpp"

namespace polyconv::bench {

// One row: `problem` in `type` under `math`, on a kernel that matches `kernel`, is at least `least_ratio` times as fast
// as `baseline`, which itself takes no longer than `baseline_max_us`; and takes no longer than `max_us`. Of suites the
// geometric mean over the layers is held to `least_ratio`, and each of them to `least_each`; a network is one problem.
struct Expectation {
  std::string where;       // "file:line"
  std::string about;       // the problem's token, or the suites as written
  std::vector<Work> works; // with their type; one, or the layers of suites
  bool mean = false;       // of suites
  std::string type, math, kernel, baseline;
  std::optional<double> least_ratio, baseline_max_us, max_us, least_each; // none where the cell is empty

  bool concerns(const std::string &token) const;
};

// Reads a CSV file by path, or one that came with the bench by name ("cpu-foundation"), with the columns
// problem,type,math,kernel,baseline,least_ratio,baseline_max_us and perhaps max_us, layout, direction, only,
// least_each. A row with a max_us may leave baseline and least_ratio empty. The problem's token may leave the type out;
// instead of a token "suite:resnet50@128+unet" names suites, with a batch for those that are to have another, and
// `only` a glob that their tokens must match; "network:resnet50@128" is what --network runs, "chain:lenet28@100" what
// --chain does. `layout` and `direction` are what --layout and --direction take. Error(kUsage) naming file and line.
std::vector<Expectation> load_expectations(const std::string &name);

// One sentence for each bar that is not held; none when all are.
std::vector<std::string> broken_expectations(const std::vector<Expectation> &expectations,
                                             const std::vector<Record> &records);

} // namespace polyconv::bench
