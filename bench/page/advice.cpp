// advice.cpp - which layers one should look at first.
// SPDX-License-Identifier: Apache-2.0
#include "page/advice.hpp"

#include <algorithm>

#include "result/record.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

Advice about(const Row &row) {
  Advice advice = {row.index, row.title(), row.problem, row.type + " on " + row.device, "", 0, 0};
  if (!row.kernel.empty()) advice.where += ", " + row.kernel;
  return advice;
}

std::string occurrences(const Row &row) {
  return row.count > 1 ? format(", %lld times", static_cast<long long>(row.count)) : "";
}

// Rows that did not come to be measured are no question of speed; those that no kernel takes may be as they should.
std::vector<Advice> failures(const std::vector<Row> &rows) {
  std::vector<Advice> found;
  for (const Row &row : rows) {
    if (!is_failure(row.status)) continue;
    found.push_back(about(row));
    found.back().why = row.status + (row.reason.empty() ? "" : ": " + row.reason);
  }
  return found;
}

std::vector<Advice> behind_baseline(const std::vector<Row> &rows) {
  std::vector<Advice> found;
  for (const Row &row : rows) {
    if (!row.good() || !row.us || !row.ratio || *row.ratio >= 1) continue;
    found.push_back(about(row));
    found.back().lost_us = row.all_us() * (1 - *row.ratio);
    found.back().why = format("%.2f of %s: %s instead of %s", *row.ratio, row.baseline.c_str(),
                              show_time(*row.us).c_str(), show_time(*row.us * *row.ratio).c_str()) +
                       occurrences(row);
  }
  return found;
}

std::vector<Advice> under_roof(const std::vector<Row> &rows) {
  std::vector<Advice> found;
  for (const Row &row : rows) {
    if (!row.good() || !row.us || !row.roof_pct || *row.roof_pct >= 100) continue;
    found.push_back(about(row));
    found.back().lost_us = row.all_us() * (1 - *row.roof_pct / 100);
    found.back().why = format("%.0f %% of the roof: %s", *row.roof_pct, show_time(*row.us).c_str()) + occurrences(row);
  }
  return found;
}

std::vector<Advice> by_time(const std::vector<Row> &rows) {
  std::vector<Advice> found;
  for (const Row &row : rows) {
    if (!row.good() || !row.us) continue;
    found.push_back(about(row));
    found.back().lost_us = row.all_us();
    found.back().why = show_time(*row.us) + occurrences(row);
  }
  return found;
}

} // namespace

Priorities advise(const std::vector<Row> &all) {
  const std::vector<Row> rows = chosen_of(all);
  Priorities priorities;
  const auto any = [&](auto question) { return std::any_of(rows.begin(), rows.end(), question); };
  std::vector<Advice> slow;
  if (any([](const Row &row) { return row.good() && row.ratio.has_value(); })) {
    slow = behind_baseline(rows);
    priorities.order =
        slow.empty() ? "No layer loses to its baseline." : "By the time that each loses to its baseline.";
  } else if (any([](const Row &row) { return row.good() && row.roof_pct.has_value(); })) {
    slow = under_roof(rows);
    priorities.order = "By the time that each spends above what memory and arithmetic allow; no row has a baseline.";
  } else {
    slow = by_time(rows);
    priorities.order = "By time alone: no row has a baseline or a roof.";
  }
  double total = 0;
  for (const Row &row : rows)
    if (row.good()) total += row.all_us();
  for (Advice &advice : slow) advice.share = total > 0 ? advice.lost_us / total : 0;
  double lost = 0;
  for (const Advice &advice : slow) lost += advice.share;
  if (slow.size() > 1 && lost < 1)
    priorities.order += format(" All %zu together: %s %% of all time.", slow.size(), show_number(100 * lost).c_str());
  std::stable_sort(slow.begin(), slow.end(), [](const Advice &a, const Advice &b) { return a.lost_us > b.lost_us; });
  priorities.advice = failures(rows);
  if (!priorities.advice.empty()) priorities.order = "What failed comes first. " + priorities.order;
  priorities.advice.insert(priorities.advice.end(), slow.begin(), slow.end());
  return priorities;
}

} // namespace polyconv::bench
