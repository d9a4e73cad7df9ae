// row.cpp - rows of a report.
// SPDX-License-Identifier: Apache-2.0
#include "page/row.hpp"

#include <map>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// Only what a logarithm takes.
std::optional<double> positive(const Result &result, const char *field) {
  const std::optional<double> value = result.number(field);
  return value && *value > 0 ? value : std::nullopt;
}

Row row_of(const Result &result, size_t index) {
  Row row;
  row.index = index;
  row.problem = result.at("problem"), row.suite = result.at("suite"), row.name = result.at("name");
  row.type = result.at("type"), row.device = result.at("device"), row.device_name = result.at("device_name");
  row.kernel = result.at("kernel"), row.requested = result.at("requested");
  row.math = result.at("math").empty() ? result.at("requested_math") : result.at("math");
  row.status = result.at("status"), row.reason = result.at("reason"),
  row.threads = row.device == "cpu" ? result.at("threads") : "";
  row.baseline = result.at("baseline"), row.baseline_kernel = result.at("baseline_kernel");
  row.fallback = result.at("fallback") == "true";
  row.count = result.whole("count").value_or(1);
  if (row.name.empty() && !result.layers.empty()) row.name = row.problem;
  row.us = positive(result, "median_us");
  row.low_us = positive(result, "median_low_us"), row.high_us = positive(result, "median_high_us");
  row.p95_us = positive(result, "p95_us");
  row.baseline_us = positive(result, "baseline_us"), row.ratio = positive(result, "ratio");
  row.roof_pct = positive(result, "roofline_pct");
  row.error = positive(result, "rel_l2_err"), row.bound_pct = positive(result, "bound_pct");
  const std::optional<double> gflop = positive(result, "gflop"), bytes = positive(result, "bytes");
  if (gflop && row.us) row.gflops = *gflop * 1e6 / *row.us;
  if (gflop && bytes) row.intensity = *gflop * 1e9 / *bytes;
  return row;
}

// Whether `other` counts instead of `row`.
bool counts_more(const Row &other, const Row &row) {
  if (other.requested.empty() != row.requested.empty()) return other.requested.empty();
  if (other.good() != row.good()) return other.good();
  return other.us.value_or(1e300) < row.us.value_or(1e300);
}

} // namespace

std::vector<Row> rows_of(const std::vector<Result> &results) {
  std::vector<Row> rows;
  for (const Result &result : last_of_each(results)) rows.push_back(row_of(result, rows.size()));
  return rows;
}

std::vector<Row> chosen_of(const std::vector<Row> &rows) {
  std::vector<Row> chosen;
  std::map<std::string, size_t> places;
  for (const Row &row : rows) {
    const std::string key =
        row.suite + "\n" + row.problem + "\n" + row.device + "\n" + row.math + "\n" + row.threads + "\n" + row.baseline;
    const auto [found, added] = places.try_emplace(key, chosen.size());
    if (added)
      chosen.push_back(row);
    else if (counts_more(row, chosen[found->second]))
      chosen[found->second] = row;
  }
  return chosen;
}

std::string family_of(const std::string &kernel) {
  const std::string name = without_configs(kernel);
  if (name.find(", ") != std::string::npos) return "several";
  const size_t slash = name.find('/');
  return slash == std::string::npos ? name : name.substr(slash + 1, name.find(' ') - slash - 1);
}

std::string words_of(const Row &row) {
  std::string words = row.name.empty() ? row.problem : row.name + " " + row.problem;
  words += " " + row.type + " on " + row.device;
  if (!row.kernel.empty()) words += ", " + row.kernel;
  if (!row.good()) return words + ": " + row.status;
  if (row.us) words += ": " + show_time(*row.us);
  if (row.gflops) words += ", " + show_number(*row.gflops) + " GFLOP/s";
  if (row.roof_pct) words += format(", %.0f %% of the roof", *row.roof_pct);
  if (row.ratio) words += format(", %.2f of %s", *row.ratio, row.baseline.c_str());
  if (row.bound_pct) words += format(", error at %.2g %% of its bound", *row.bound_pct);
  return words;
}

} // namespace polyconv::bench
