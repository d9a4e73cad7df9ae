// expect.cpp - a file of bars that results must hold.
// SPDX-License-Identifier: Apache-2.0
#include "expect.hpp"

#include <algorithm>
#include <map>

#include "csv.hpp"
#include "machine.hpp"
#include "measure/baseline.hpp"
#include "selection.hpp"
#include "statistics.hpp"
#include "text.hpp"

namespace polyconv::bench {

namespace {

// What a cell is, or nothing where it or its column is not there.
class Cells {
 public:
  Cells(const CsvRow &row, const std::string &where) : row_(row), where_(where) {}

  std::string text(const std::string &column) const {
    const auto cell = row_.cells.find(column);
    return cell == row_.cells.end() ? std::string() : cell->second;
  }
  std::optional<double> number(const std::string &column) const {
    const std::string cell = text(column);
    if (cell.empty()) return std::nullopt;
    return parse_real(cell, where_ + ": " + column);
  }
  bool given(const std::string &column) const { return !text(column).empty(); }

 private:
  const CsvRow &row_;
  const std::string &where_;
};

const char *const kSuites = "suite:";
const char *const kNetwork = "network:";
const char *const kChain = "chain:";

bool begins(const std::string &text, const char *with) {
  return text.rfind(with, 0) == 0;
}

// Which cells a row needs, and which do not go together.
void check_cells(const Cells &cells, bool mean, const std::string &where) {
  for (const char *column : {"problem", "type", "math", "kernel"})
    if (!cells.given(column)) throw Error(kUsage, format("%s: the cell '%s' is empty", where.c_str(), column));
  if (!cells.given("max_us"))
    for (const char *column : {"baseline", "least_ratio"})
      if (!cells.given(column)) throw Error(kUsage, format("%s: the cell '%s' is empty", where.c_str(), column));
  if (cells.given("baseline") != cells.given("least_ratio"))
    throw Error(kUsage, where + ": a baseline goes with a least_ratio, and the other way round");
  for (const char *column : {"only", "least_each"})
    if (!mean && cells.given(column))
      throw Error(kUsage, format("%s: '%s' is for suites, and '%s' is a problem", where.c_str(), column,
                                 cells.text("problem").c_str()));
  for (const char *column : {"max_us", "baseline_max_us"})
    if (mean && cells.given(column))
      throw Error(kUsage, format("%s: '%s' is for one problem, and '%s' are suites", where.c_str(), column,
                                 cells.text("problem").c_str()));
}

// The row's type, layout and direction, and the batch of a suite that has one: "resnet50@128".
WorkRequest request_of(const Cells &cells, const std::string &suite, const std::string &where) {
  WorkRequest request;
  const size_t at = suite.find('@');
  if (at != std::string::npos) request.batches = parse_numbers(suite.substr(at + 1), where + ": the batch", 0);
  request.dtypes = {cells.text("type")};
  if (cells.given("layout")) request.layouts = {cells.text("layout")};
  if (cells.given("direction")) request.directions = {cells.text("direction")};
  return request;
}

// "resnet50@128+unet" -> their layers, those with a batch at that batch.
std::vector<Work> works_of_suites(const std::string &suites, const Cells &cells, const std::string &where) {
  std::vector<Work> works;
  for (const std::string &part : split(suites, '+')) {
    WorkRequest request = request_of(cells, part, where);
    request.suites = {part.substr(0, part.find('@'))};
    for (Work &work : collect_work(request))
      if (!cells.given("only") || glob_match(cells.text("only"), work.token)) works.push_back(std::move(work));
  }
  if (works.empty()) throw Error(kUsage, where + ": no layer of " + suites + " matches " + cells.text("only"));
  return works;
}

std::vector<Work> works_of(const Cells &cells, bool mean, const std::string &where) {
  const std::string problem = cells.text("problem");
  if (mean) return works_of_suites(problem.substr(std::string(kSuites).size()), cells, where);
  if (begins(problem, kNetwork)) {
    const std::string network = problem.substr(std::string(kNetwork).size());
    WorkRequest request = request_of(cells, network, where);
    request.networks = {network.substr(0, network.find('@'))};
    return collect_work(request);
  }
  if (begins(problem, kChain)) {
    const std::string chain = problem.substr(std::string(kChain).size());
    WorkRequest request = request_of(cells, chain, where);
    request.chains = {chain.substr(0, chain.find('@'))};
    return collect_work(request);
  }
  WorkRequest request = request_of(cells, "", where);
  request.tokens = {problem};
  return collect_work(request);
}

Expectation read_row(const CsvRow &row, const std::string &where) {
  const Cells cells(row, where);
  Expectation expectation;
  expectation.where = where;
  expectation.mean = begins(cells.text("problem"), kSuites);
  check_cells(cells, expectation.mean, where);
  try {
    expectation.works = works_of(cells, expectation.mean, where);
  } catch (const Error &error) {
    const std::string what = error.what();
    throw Error(kUsage, what.rfind(where, 0) == 0 ? what : where + ": " + what);
  }
  for (const Work &work : expectation.works)
    if (!work.invalid.empty()) throw Error(kUsage, where + ": " + work.invalid);
  expectation.about = expectation.mean ? cells.text("problem") : expectation.works.front().token;
  expectation.type = type_of(expectation.works.front());
  expectation.math = parse_math(cells.text("math")).word;
  expectation.kernel = cells.text("kernel");
  expectation.baseline = cells.text("baseline");
  expectation.least_ratio = cells.number("least_ratio");
  expectation.least_each = cells.number("least_each");
  expectation.baseline_max_us = cells.number("baseline_max_us");
  expectation.max_us = cells.number("max_us");
  return expectation;
}

// The first kernel that ran and is none of those that a bar names; "" where there is no such.
std::string foreign_kernel(const Expectation &e, const Record &record) {
  const auto foreign = [&](const std::string &kernel) {
    const std::string first = kernel.substr(0, kernel.find(" + "));
    return !glob_match(e.kernel, kernel) && !glob_match(e.kernel, first);
  };
  for (const LayerLine &layer : record.layers)
    if (foreign(layer.kernel)) return layer.kernel;
  return record.layers.empty() && foreign(record.kernel) ? record.kernel : "";
}

// Why a record is none to compare, or the kernel took too long; "" where the bar is about its ratio.
std::string why_no_ratio(const Expectation &e, const Record &record) {
  if (record.status != "good") return "the row is " + record.status + ": " + record.reason;
  const std::string foreign = foreign_kernel(e, record);
  if (!foreign.empty()) return foreign + " ran, not " + e.kernel;
  if (e.max_us && record.median_us.value_or(*e.max_us + 1) > *e.max_us)
    return format("%s took %s, more than %s", record.kernel.c_str(), show_time(record.median_us.value_or(0)).c_str(),
                  show_time(*e.max_us).c_str());
  if (!e.least_ratio) return "";
  if (!record.baseline_reason.empty()) return "the baseline " + e.baseline + " is missing: " + record.baseline_reason;
  if (!record.ratio || !record.baseline_us) return "the baseline " + e.baseline + " was not measured";
  const std::string mode = baseline_mode(e.baseline, e.math, e.type);
  if (!is_ceiling(e.baseline) && record.baseline_math != mode)
    return "the baseline ran in math mode " + record.baseline_math + ", not " + mode;
  if (e.baseline_max_us && *record.baseline_us > *e.baseline_max_us)
    return format("the baseline took %s us, above its most of %s us: it is not at its best",
                  show_number(*record.baseline_us).c_str(), show_number(*e.baseline_max_us).c_str());
  return "";
}

// Why one record does not hold the bar; "" where it does, or where the bar is a mean and leaves it free.
std::string why_broken(const Expectation &e, const Record &record) {
  std::string why = why_no_ratio(e, record);
  const std::optional<double> least = e.mean ? e.least_each : e.least_ratio;
  if (!why.empty() || !least || *record.ratio >= *least) return why;
  return format("the ratio to %s is %.3f, below %.3f (%s took %s)", e.baseline.c_str(), *record.ratio, *least,
                record.kernel.c_str(), show_time(record.median_us.value_or(0)).c_str());
}

// Whether a row was asked for the kernels of another bar about the same problem.
bool of_another(const Record &record, const Expectation &e, const std::vector<Expectation> &expectations) {
  return record.requested != e.kernel &&
         std::any_of(expectations.begin(), expectations.end(), [&](const Expectation &other) {
           return other.kernel == record.requested && other.concerns(record.problem);
         });
}

// The bar of a mean: over the layers, once for each number of threads that was asked for.
void judge_mean(const Expectation &e, const std::map<int64_t, std::vector<double>> &ratios,
                std::vector<std::string> &broken) {
  for (const auto &[threads, values] : ratios) {
    const double mean = geometric_mean(values);
    if (mean >= *e.least_ratio) continue;
    const std::string with = ratios.size() > 1 ? format(" with %lld threads", static_cast<long long>(threads)) : "";
    broken.push_back(format("%s: %s: the geometric mean of the ratios to %s over %zu layers%s is %.3f, below %.3f",
                            e.where.c_str(), e.about.c_str(), e.baseline.c_str(), values.size(), with.c_str(), mean,
                            *e.least_ratio));
  }
}

void judge(const Expectation &e, const std::vector<Expectation> &expectations, const std::vector<Record> &records,
           std::vector<std::string> &broken) {
  std::map<int64_t, std::vector<double>> ratios;
  for (const Work &work : e.works) {
    bool matched = false;
    for (const Record &record : records) {
      if (record.problem != work.token || record.type != e.type || record.requested_math != e.math ||
          record.baseline != e.baseline || of_another(record, e, expectations))
        continue;
      matched = true;
      const std::string why = why_broken(e, record);
      if (!why.empty()) broken.push_back(e.where + ": " + work.token + ": " + why);
      if (e.mean && why_no_ratio(e, record).empty()) ratios[record.threads.value_or(0)].push_back(*record.ratio);
    }
    if (!matched) broken.push_back(e.where + ": " + work.token + ": matches no row of this run");
  }
  judge_mean(e, ratios, broken);
}

} // namespace

std::vector<Expectation> load_expectations(const std::string &name) {
  const bool shipped = name.find_first_of("/.") == std::string::npos;
  const std::string path = shipped ? (data_folder("expect") / (name + ".csv")).string() : name;
  if (std::error_code ignored; shipped && !std::filesystem::is_regular_file(path, ignored)) {
    const std::vector<std::string> known = file_names(data_folder("expect"), ".csv");
    throw Error(kUsage, "no file of expectations is called '" + name + "'; there are " + join(known, ", ") +
                            ", or give the path of a .csv file" + did_you_mean(name, known));
  }
  std::vector<Expectation> expectations;
  for (const CsvRow &row :
       read_csv(path, {"problem", "type", "math", "kernel", "baseline", "least_ratio", "baseline_max_us"}))
    expectations.push_back(read_row(row, format("%s:%d", path.c_str(), row.line)));
  if (expectations.empty()) throw Error(kUsage, path + ": no expectation");
  return expectations;
}

bool Expectation::concerns(const std::string &token) const {
  return std::any_of(works.begin(), works.end(), [&](const Work &work) { return work.token == token; });
}

std::vector<std::string> broken_expectations(const std::vector<Expectation> &expectations,
                                             const std::vector<Record> &records) {
  std::vector<std::string> broken;
  for (const Expectation &e : expectations) judge(e, expectations, records, broken);
  return broken;
}

} // namespace polyconv::bench
