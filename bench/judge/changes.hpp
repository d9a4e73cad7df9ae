// changes.hpp - two measurements of the same rows beside one another, each change with the interval in which it lies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "numbers/statistics.hpp"
#include "result/results.hpp"

namespace polyconv::bench {

// Several runs of the same code: the rows of one file each.
using Runs = std::vector<std::vector<Result>>;

// Reads the files of "a.jsonl,b.jsonl". Warnings go to stderr.
Runs read_runs(const std::string &files);

struct RowChange {
  Result before;
  std::optional<Result> after; // none where the row is missing
  std::string word;            // "slower", "faster", "within the noise", "", or what is wrong with the row
  bool fails = false;
  // New time over old, and where it lies with 95 %: by the intervals of both medians and the machine's spread. A row
  // without intervals, as older files have them, has those of the spread alone.
  std::optional<double> old_us, new_us, change, low, high;
};

struct Tolerance {
  double most = 0.05; // a row fails when it is slower by more, and that beyond its interval
  double spread = 0;  // by which medians of two runs of the same code differ on this machine
};

// Every row of the old runs with that of the new ones; of several runs the median of their medians, and an interval
// that holds those of all. What fails comes first, the slowest first.
std::vector<RowChange> changes_between(const Runs &olds, const Runs &news, const Tolerance &tolerance);

// The geometric mean of the changes, and where it lies with 95 % if rows vary independently; none without a change.
struct MeanChange {
  double mean;
  Interval interval;
  size_t rows;
};
std::optional<MeanChange> mean_of(const std::vector<RowChange> &changes);

// What 95 % of the rows' medians differ by from one run to another, as a share: 0.04. Error(kUsage) where there are
// fewer than two runs, or no row is good in two of them.
double spread_of(const Runs &runs);

// The spread of a machine, kept in the cache folder; none where it has not been learnt. Error(kUsage) where it cannot
// be written.
std::optional<double> known_spread(const std::string &device_name);
void keep_spread(const std::string &device_name, double spread);

} // namespace polyconv::bench
