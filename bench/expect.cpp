// expect.cpp - a file of bars that results must hold.
// SPDX-License-Identifier: Apache-2.0
#include "expect.hpp"

#include <algorithm>

#include "csv.hpp"
#include "machine.hpp"
#include "measure/baseline.hpp"
#include "selection.hpp"
#include "text.hpp"

namespace polyconv::bench {

namespace {

Expectation read_row(const CsvRow &row, const std::string &where) {
  Expectation expectation;
  expectation.where = where;
  const auto cell_of = [&](const std::string &column) {
    const auto cell = row.cells.find(column);
    return cell == row.cells.end() ? std::string() : cell->second;
  };
  const auto number = [&](const std::string &column) -> std::optional<double> {
    const std::string cell = cell_of(column);
    if (cell.empty()) return std::nullopt;
    return parse_real(cell, where + ": " + column);
  };
  expectation.max_us = number("max_us");
  for (const auto &[column, cell] : row.cells) {
    const bool of_baseline = column == "baseline" || column == "least_ratio";
    const bool optional = column == "baseline_max_us" || column == "max_us" || (of_baseline && expectation.max_us);
    if (cell.empty() && !optional)
      throw Error(kUsage, format("%s: the cell '%s' is empty", where.c_str(), column.c_str()));
  }
  if (cell_of("baseline").empty() != cell_of("least_ratio").empty())
    throw Error(kUsage, where + ": a baseline goes with a least_ratio, and the other way round");
  WorkRequest request;
  request.tokens = {row.cells.at("problem")};
  request.dtypes = {row.cells.at("type")};
  try {
    expectation.work = collect_work(request).front();
  } catch (const Error &error) {
    throw Error(kUsage, where + ": " + error.what());
  }
  if (!expectation.work.invalid.empty()) throw Error(kUsage, where + ": " + expectation.work.invalid);
  expectation.type = type_of(expectation.work.problems.front());
  expectation.math = parse_math(row.cells.at("math")).word;
  expectation.kernel = row.cells.at("kernel");
  expectation.baseline = row.cells.at("baseline");
  expectation.least_ratio = number("least_ratio");
  expectation.baseline_max_us = number("baseline_max_us");
  return expectation;
}

// Why one record does not hold the bar; "" where it does.
std::string why_broken(const Expectation &e, const Record &record) {
  if (record.status != "good") return "the row is " + record.status + ": " + record.reason;
  const std::string first = record.kernel.substr(0, record.kernel.find(" + "));
  if (!glob_match(e.kernel, record.kernel) && !glob_match(e.kernel, first))
    return record.kernel + " ran, not " + e.kernel;
  if (e.max_us && record.median_us.value_or(*e.max_us + 1) > *e.max_us)
    return format("%s took %s, more than %s", record.kernel.c_str(), show_time(record.median_us.value_or(0)).c_str(),
                  show_time(*e.max_us).c_str());
  if (!e.least_ratio) return "";
  if (!record.baseline_reason.empty()) return "the baseline " + e.baseline + " is missing: " + record.baseline_reason;
  if (!record.ratio || !record.baseline_us) return "the baseline " + e.baseline + " was not measured";
  const std::string mode = baseline_mode(e.baseline, e.math);
  if (!is_ceiling(e.baseline) && record.baseline_math != mode)
    return "the baseline ran in math mode " + record.baseline_math + ", not " + mode;
  if (e.baseline_max_us && *record.baseline_us > *e.baseline_max_us)
    return format("the baseline took %s us, above its most of %s us: it is not at its best",
                  show_number(*record.baseline_us).c_str(), show_number(*e.baseline_max_us).c_str());
  if (*record.ratio < *e.least_ratio)
    return format("the ratio to %s is %.3f, below %.3f (%s took %s)", e.baseline.c_str(), *record.ratio, *e.least_ratio,
                  record.kernel.c_str(), show_time(record.median_us.value_or(0)).c_str());
  return "";
}

// Whether a row was asked for the kernels of another bar about the same problem.
bool of_another(const Record &record, const Expectation &e, const std::vector<Expectation> &expectations) {
  return record.requested != e.kernel &&
         std::any_of(expectations.begin(), expectations.end(), [&](const Expectation &other) {
           return other.work.token == e.work.token && other.kernel == record.requested;
         });
}

} // namespace

std::vector<Expectation> load_expectations(const std::string &name) {
  const bool shipped = name.find_first_of("/.") == std::string::npos;
  const std::string path = shipped ? (data_folder("expect") / (name + ".csv")).string() : name;
  std::vector<Expectation> expectations;
  for (const CsvRow &row :
       read_csv(path, {"problem", "type", "math", "kernel", "baseline", "least_ratio", "baseline_max_us"}))
    expectations.push_back(read_row(row, format("%s:%d", path.c_str(), row.line)));
  if (expectations.empty()) throw Error(kUsage, path + ": no expectation");
  return expectations;
}

std::vector<std::string> broken_expectations(const std::vector<Expectation> &expectations,
                                             const std::vector<Record> &records) {
  std::vector<std::string> broken;
  for (const Expectation &e : expectations) {
    const std::string about = e.where + ": " + e.work.token + ": ";
    bool matched = false;
    for (const Record &record : records) {
      if (record.problem != e.work.token || record.type != e.type || record.requested_math != e.math ||
          record.baseline != e.baseline || of_another(record, e, expectations))
        continue;
      matched = true;
      const std::string why = why_broken(e, record);
      if (!why.empty()) broken.push_back(about + why);
    }
    if (!matched) broken.push_back(about + "matches no row of this run");
  }
  return broken;
}

} // namespace polyconv::bench
