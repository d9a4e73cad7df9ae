// expect.hpp - a file of bars that results must hold, and every way in which they may not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record.hpp"

namespace polyconv::bench {

// One row: `problem` in `type` under `math`, on a kernel that matches `kernel`, is at least `least_ratio` times as fast
// as `baseline`, which itself takes no longer than `baseline_max_us`; and takes no longer than `max_us`.
struct Expectation {
  std::string where; // "file:line"
  Work work;         // problem and type
  std::string type, math, kernel, baseline;
  std::optional<double> least_ratio, baseline_max_us, max_us; // none where the cell is empty
};

// Reads a CSV file by path, or one that came with the bench by name ("cpu-foundation"), with the columns
// problem,type,math,kernel,baseline,least_ratio,baseline_max_us and perhaps max_us. A row with a max_us may leave
// baseline and least_ratio empty. The problem's token may leave the type out. Error(kUsage) naming file and line.
std::vector<Expectation> load_expectations(const std::string &name);

// One sentence for each bar that is not held; none when all are.
std::vector<std::string> broken_expectations(const std::vector<Expectation> &expectations,
                                             const std::vector<Record> &records);

} // namespace polyconv::bench
