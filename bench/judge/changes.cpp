// changes.cpp - what changed between two measurements.
// SPDX-License-Identifier: Apache-2.0
#include "judge/changes.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// One row over all runs that have it.
struct Measured {
  Result row; // of the last run
  std::vector<double> medians;
  double low = INFINITY, high = 0; // over the runs that state them

  double us() const { return median(medians); }
  // By how much, as a logarithm, the true time may lie below and above.
  double below() const { return low < us() ? std::log(us() / low) : 0; }
  double above() const { return high > us() ? std::log(high / us()) : 0; }
};

struct Table {
  std::vector<std::string> keys; // in their order
  std::map<std::string, Measured> rows;
};

Table table_of(const Runs &runs) {
  Table table;
  for (const std::vector<Result> &run : runs)
    for (const Result &row : last_of_each(run)) {
      const std::string key = key_of(row);
      const auto [found, added] = table.rows.try_emplace(key);
      if (added) table.keys.push_back(key);
      Measured &measured = found->second;
      // A row that was good in one run and not in another is not good.
      if (added || measured.row.good()) measured.row = row;
      const std::optional<double> us = row.number("median_us");
      if (!row.good() || !us || *us <= 0) continue;
      measured.medians.push_back(*us);
      measured.low = std::min({measured.low, *us, row.number("median_low_us").value_or(*us)});
      measured.high = std::max({measured.high, *us, row.number("median_high_us").value_or(*us)});
    }
  return table;
}

RowChange change_of(const Measured &before, const Measured *after, const Tolerance &tolerance) {
  RowChange result;
  result.before = before.row;
  if (after) result.after = after->row;
  if (!before.medians.empty()) result.old_us = before.us();
  if (after && !after->medians.empty()) result.new_us = after->us();
  if (!before.row.good()) return result.word = "was " + before.row.at("status"), result;
  result.fails = true;
  if (!after) return result.word = "missing", result;
  if (!after->row.good()) {
    const std::string reason = after->row.at("reason");
    return result.word = "now " + after->row.at("status") + (reason.empty() ? "" : ": " + reason), result;
  }
  result.fails = false;
  if (!result.old_us) return result.word = "was not timed", result;
  if (!result.new_us) return result.fails = true, result.word = "not timed", result;
  const double change = *result.new_us / *result.old_us, spread = std::log1p(tolerance.spread);
  result.change = change;
  result.low = change * std::exp(-std::hypot(after->below(), before.above(), spread));
  result.high = change * std::exp(std::hypot(after->above(), before.below(), spread));
  if (change > 1 + tolerance.most) {
    result.fails = *result.low > 1;
    result.word = result.fails ? "slower" : "within the noise";
  } else if (change < 1 / (1 + tolerance.most)) {
    result.word = *result.high < 1 ? "faster" : "within the noise";
  }
  return result;
}

} // namespace

Runs read_runs(const std::string &files) {
  Runs runs;
  for (const std::string &file : split(files, ',')) runs.push_back(read_all_results({file}));
  if (runs.empty()) throw Error(kUsage, "expected a result file, not ''");
  return runs;
}

std::vector<RowChange> changes_between(const Runs &olds, const Runs &news, const Tolerance &tolerance) {
  const Table before = table_of(olds), after = table_of(news);
  std::vector<RowChange> changes;
  for (const std::string &key : before.keys) {
    const auto match = after.rows.find(key);
    changes.push_back(change_of(before.rows.at(key), match == after.rows.end() ? nullptr : &match->second, tolerance));
  }
  std::stable_sort(changes.begin(), changes.end(), [](const RowChange &a, const RowChange &b) {
    if (a.fails != b.fails) return a.fails;
    // What has no time any more is graver than what is slower.
    return a.change.value_or(a.fails ? INFINITY : 0) > b.change.value_or(b.fails ? INFINITY : 0);
  });
  return changes;
}

std::optional<MeanChange> mean_of(const std::vector<RowChange> &changes) {
  std::vector<double> values;
  for (const RowChange &c : changes)
    if (c.change) values.push_back(*c.change);
  if (values.empty()) return std::nullopt;
  const double mean = geometric_mean(values);
  double squares = 0;
  for (const double value : values) squares += std::pow(std::log(value / mean), 2);
  const auto n = static_cast<double>(values.size());
  const double error = n > 1 ? 1.96 * std::sqrt(squares / (n - 1) / n) : 0;
  return MeanChange{mean, {mean * std::exp(-error), mean * std::exp(error)}, values.size()};
}

double spread_of(const Runs &runs) {
  if (runs.size() < 2)
    throw Error(kUsage, "--noise wants two or more result files of the same code on the same machine");
  std::map<std::string, std::vector<double>> medians;
  for (const std::vector<Result> &run : runs)
    for (const Result &row : last_of_each(run)) {
      const std::optional<double> us = row.number("median_us");
      if (row.good() && us && *us > 0) medians[key_of(row)].push_back(*us);
    }
  std::vector<double> differences;
  for (const auto &[key, times] : medians)
    for (size_t i = 0; i < times.size(); ++i)
      for (size_t j = i + 1; j < times.size(); ++j) differences.push_back(std::abs(std::log(times[i] / times[j])));
  if (differences.empty()) throw Error(kUsage, "--noise: no row is good in two of the files");
  return std::expm1(percentile(differences, 0.95));
}

} // namespace polyconv::bench
