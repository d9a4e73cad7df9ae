// expect.cpp - a file of bars that results must hold.
// SPDX-License-Identifier: Apache-2.0
#include "judge/expect.hpp"

#include <algorithm>

#include "arguments/selection.hpp"
#include "result/record.hpp"
#include "system/machine.hpp"
#include "text/csv.hpp"
#include "text/text.hpp"

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

  // A ratio that a layer may be below. At 0 and less there is none, and the bar would say nothing.
  std::optional<double> ratio(const std::string &column) const {
    const std::optional<double> value = number(column);
    if (value && *value <= 0) refuse(column, "no ratio above 0; expected one such as 0.85");
    return value;
  }
  // "4%" -> 0.04. Without its sign 0.04 could as well be four layers in ten thousand.
  std::optional<double> share(const std::string &column) const {
    const std::string cell = text(column);
    if (cell.empty()) return std::nullopt;
    const std::string digits = cell.substr(0, cell.size() - 1);
    const bool number = !digits.empty() && digits.find_first_not_of("0123456789.") == std::string::npos;
    const double percent = number && cell.back() == '%' ? parse_real(digits, where_ + ": " + column) : -1;
    if (percent < 0 || percent > 100) refuse(column, "no share; expected 0% to 100%, such as 4%");
    return percent / 100;
  }
  // Of how many layers one is taken.
  size_t every(const std::string &column) const {
    constexpr size_t kMostDigits = 6;
    const std::string cell = text(column);
    if (cell.empty()) return 1;
    const bool digits = cell.find_first_not_of("0123456789") == std::string::npos && cell.size() <= kMostDigits;
    if (!digits || std::stoul(cell) == 0) refuse(column, "no whole number from 1 to 999999; expected one such as 5");
    return std::stoul(cell);
  }

 private:
  [[noreturn]] void refuse(const std::string &column, const char *why) const {
    throw Error(kUsage, format("%s: %s: '%s' is %s", where_.c_str(), column.c_str(), text(column).c_str(), why));
  }

  const CsvRow &row_;
  const std::string &where_;
};

const char *const kSuites = "suite:";
const char *const kNetwork = "network:";
const char *const kChain = "chain:";

bool begins(const std::string &text, const char *with) {
  return text.rfind(with, 0) == 0;
}

// The columns that a bar of suites may stand in.
const std::vector<std::string> kBarsOfSuites = {"least_ratio", "least_each", "most_below", "least_sum"};

// Which cells a row of suites needs.
void check_cells_of_suites(const Cells &cells, const std::string &where) {
  if (!cells.given("baseline")) throw Error(kUsage, where + ": the cell 'baseline' is empty");
  if (cells.given("below") != cells.given("most_below"))
    throw Error(kUsage, format("%s: '%s' is empty; expected a share such as 4%% in 'most_below' and the ratio that it "
                               "is about in 'below', or neither",
                               where.c_str(), cells.given("below") ? "most_below" : "below"));
  if (std::none_of(kBarsOfSuites.begin(), kBarsOfSuites.end(),
                   [&](const std::string &column) { return cells.given(column); }))
    throw Error(kUsage, format("%s: '%s' has no bar; expected one in %s", where.c_str(), cells.text("problem").c_str(),
                               join(kBarsOfSuites, ", ").c_str()));
}

void check_cells_of_problem(const Cells &cells, const std::string &where) {
  if (!cells.given("max_us"))
    for (const char *column : {"baseline", "least_ratio"})
      if (!cells.given(column)) throw Error(kUsage, format("%s: the cell '%s' is empty", where.c_str(), column));
  if (cells.given("baseline") != cells.given("least_ratio"))
    throw Error(kUsage, where + ": a baseline goes with a least_ratio, and the other way round");
}

// Which cells a row needs, and which do not go together.
void check_cells(const Cells &cells, bool of_suites, const std::string &where) {
  for (const char *column : {"problem", "type", "math", "kernel"})
    if (!cells.given(column)) throw Error(kUsage, format("%s: the cell '%s' is empty", where.c_str(), column));
  for (const char *column : {"only", "every", "least_each", "below", "most_below", "least_sum"})
    if (!of_suites && cells.given(column))
      throw Error(kUsage, format("%s: '%s' is for suites, and '%s' is a problem", where.c_str(), column,
                                 cells.text("problem").c_str()));
  for (const char *column : {"max_us", "baseline_max_us"})
    if (of_suites && cells.given(column))
      throw Error(kUsage, format("%s: '%s' is for one problem, and '%s' are suites", where.c_str(), column,
                                 cells.text("problem").c_str()));
  of_suites ? check_cells_of_suites(cells, where) : check_cells_of_problem(cells, where);
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
  const size_t step = cells.every("every");
  std::vector<Work> taken;
  for (size_t i = 0; i < works.size(); i += step) taken.push_back(std::move(works[i]));
  return taken;
}

// "suite:census@1 (bwd_d, nhwc, bf16, one in 5)": a sentence about one of many rows of a suite tells which.
std::string about_suites(const Cells &cells) {
  std::vector<std::string> parts;
  for (const char *column : {"direction", "layout", "type"})
    if (cells.given(column)) parts.push_back(cells.text(column));
  if (cells.text("math") != "strict") parts.push_back(cells.text("math"));
  if (cells.given("only")) parts.push_back("only " + cells.text("only"));
  if (cells.every("every") > 1) parts.push_back("one in " + cells.text("every"));
  return cells.text("problem") + " (" + join(parts, ", ") + ")";
}

std::vector<Work> works_of(const Cells &cells, bool of_suites, const std::string &where) {
  const std::string problem = cells.text("problem");
  if (of_suites) return works_of_suites(problem.substr(std::string(kSuites).size()), cells, where);
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
  expectation.of_suites = begins(cells.text("problem"), kSuites);
  check_cells(cells, expectation.of_suites, where);
  try {
    expectation.works = works_of(cells, expectation.of_suites, where);
  } catch (const Error &error) {
    const std::string what = error.what();
    throw Error(kUsage, what.rfind(where, 0) == 0 ? what : where + ": " + what);
  }
  for (const Work &work : expectation.works)
    if (!work.invalid.empty()) throw Error(kUsage, where + ": " + work.invalid);
  expectation.about = expectation.of_suites ? about_suites(cells) : expectation.works.front().token;
  expectation.type = type_of(expectation.works.front());
  expectation.math = parse_math(cells.text("math")).word;
  expectation.kernel = cells.text("kernel");
  expectation.baseline = cells.text("baseline");
  expectation.least_ratio = cells.number("least_ratio");
  expectation.least_each = cells.number("least_each");
  expectation.baseline_max_us = cells.number("baseline_max_us");
  expectation.max_us = cells.number("max_us");
  expectation.below = cells.ratio("below");
  expectation.most_below = cells.share("most_below");
  expectation.least_sum = cells.ratio("least_sum");
  return expectation;
}

const std::vector<std::string> kRequired = {"problem",  "type",        "math",           "kernel",
                                            "baseline", "least_ratio", "baseline_max_us"};
const std::vector<std::string> kOptional = {"max_us",     "layout", "direction",  "only",     "every",
                                            "least_each", "below",  "most_below", "least_sum"};

// A column that nobody knows is the file's own affair, unless it is a known one misspelt: a bar that nobody asks is
// held by everything.
void refuse_misspelt_columns(const CsvRow &row, const std::string &path) {
  std::vector<std::string> known = kRequired;
  known.insert(known.end(), kOptional.begin(), kOptional.end());
  for (const auto &[column, cell] : row.cells) {
    const bool is_known = std::find(known.begin(), known.end(), column) != known.end();
    const std::string meant = is_known ? "" : did_you_mean(column, known);
    if (!meant.empty())
      throw Error(kUsage, format("%s: no column is called '%s'%s", path.c_str(), column.c_str(), meant.c_str()));
  }
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
  const std::vector<CsvRow> rows = read_csv(path, kRequired);
  if (!rows.empty()) refuse_misspelt_columns(rows.front(), path);
  expectations.reserve(rows.size());
  for (const CsvRow &row : rows) expectations.push_back(read_row(row, format("%s:%d", path.c_str(), row.line)));
  if (expectations.empty()) throw Error(kUsage, path + ": no expectation");
  return expectations;
}

bool Expectation::concerns(const std::string &token) const {
  return std::any_of(works.begin(), works.end(), [&](const Work &work) { return work.token == token; });
}

} // namespace polyconv::bench
