// suite.cpp - reading a list of problems: text files of tokens, or tables of layers.
// SPDX-License-Identifier: Apache-2.0
#include "work/suite.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "system/machine.hpp"
#include "text/csv.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace fs = std::filesystem;

namespace {

fs::path path_of(const std::string &name) {
  std::error_code ignored;
  if (name.find('/') == std::string::npos && name.find('.') == std::string::npos) {
    for (const char *extension : {".txt", ".csv"}) {
      fs::path path = data_folder("suites") / (name + extension);
      if (fs::is_regular_file(path, ignored)) return path;
    }
    throw Error(kUsage, "no suite is called '" + name + "'; there are " + join(suite_names(), ", ") +
                            ", or give the path of a .txt or .csv file" + did_you_mean(name, suite_names()));
  }
  if (!fs::is_regular_file(name, ignored)) throw Error(kUsage, "the suite " + name + " is not a file that can be read");
  return name;
}

// Takes " count=3" and " name=conv1" from the end of a line.
void take_words(std::string &text, int64_t &count, std::string &name, const std::string &where) {
  while (true) {
    const size_t blank = text.find_last_of(" \t");
    if (blank == std::string::npos) return;
    const std::string word = text.substr(blank + 1);
    if (word.rfind("count=", 0) == 0) {
      count = parse_integer(word.substr(6), where + ": count");
      if (count < 1) throw Error(kUsage, where + ": count must be at least 1");
    } else if (word.rfind("name=", 0) == 0) {
      name = word.substr(5);
    } else {
      return;
    }
    text = trim(text.substr(0, blank));
  }
}

std::vector<Work> read_text(const fs::path &path, bool expand) {
  std::vector<Work> works;
  std::vector<long long> batches;
  bool fixed = false;
  int number = 0;
  for (const std::string &line : read_lines(path.string())) {
    ++number;
    const std::string where = format("%s:%d", path.string().c_str(), number);
    std::string text = trim(line.substr(0, line.find('#'))), name;
    int64_t count = 1;
    if (text.empty()) continue;
    if (text[0] == '@') {
      if (text.rfind("@batch=", 0) != 0)
        throw Error(kUsage, format("%s: unknown directive '%s'; expected @batch=", where.c_str(), text.c_str()));
      fixed = text == "@batch=fixed";
      batches = fixed ? std::vector<long long>() : parse_numbers(text.substr(7), where + ": @batch", 0);
      continue;
    }
    take_words(text, count, name, where);
    const std::vector<polyconv_problem> layers = parse_work(text, where).problems;
    std::vector<long long> sizes = batches;
    if (sizes.empty()) sizes = {layers.front().batch};
    if (!expand) sizes.resize(1);
    for (long long size : sizes) {
      std::vector<polyconv_problem> sized = layers;
      for (polyconv_problem &layer : sized) layer.batch = size;
      works.push_back(make_work(sized));
      works.back().batch_fixed = fixed;
      works.back().count = count, works.back().name = name;
    }
  }
  return works;
}

// Copies one column an axis, outermost first: ("i", "h") and so on. `suffix` as in ph_l.
void read_axes(const CsvRow &row, const std::string &where, const std::string &axes, const std::string &letter,
               const std::string &suffix, int64_t *values) {
  for (char axis : axes) {
    const std::string column = format("%s%c%s", letter.c_str(), axis, suffix.c_str());
    const std::string what = format("%s: %s", where.c_str(), column.c_str());
    const auto cell = row.cells.find(column);
    if (cell == row.cells.end()) throw Error(kUsage, format("%s: no column '%s'", where.c_str(), column.c_str()));
    *values++ = parse_integer(cell->second, what);
  }
}

void check_output(const polyconv_problem &problem, const CsvRow &row, const std::string &where,
                  const std::string &axes) {
  polyconv_tensor output;
  if (polyconv_problem_tensor(&problem, POLYCONV_TENSOR_OUTPUT, &output, nullptr) != POLYCONV_SUCCESS)
    throw Error(kUsage, where + ": " + polyconv_last_error());
  int64_t expected[POLYCONV_MAX_SPATIAL];
  read_axes(row, where, axes, "o", "", expected);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = output.size[5 - axes.size() + i];
    if (size != expected[i])
      throw Error(kUsage, format("%s: o%c is %lld, but the other columns make it %lld", where.c_str(), axes[i],
                                 static_cast<long long>(expected[i]), static_cast<long long>(size)));
  }
}

std::vector<Work> read_table(const fs::path &path) {
  std::vector<Work> works;
  for (const CsvRow &row : read_csv(path.string(), {"name", "groups", "mb", "ic", "oc", "spatial_dims"})) {
    const std::string where = format("%s:%d", path.string().c_str(), row.line);
    const auto number = [&](const char *column) { return parse_integer(row.cells.at(column), where + ": " + column); };
    polyconv_problem problem;
    polyconv_problem_init(&problem);
    const int64_t dims = number("spatial_dims");
    if (dims < 1 || dims > POLYCONV_MAX_SPATIAL) throw Error(kUsage, where + ": spatial_dims must be 1, 2 or 3");
    const std::string axes = std::string("dhw").substr(3 - static_cast<size_t>(dims));
    problem.spatial_dims = static_cast<int32_t>(dims);
    problem.groups = number("groups");
    problem.batch = number("mb");
    problem.in_channels = number("ic");
    problem.out_channels = number("oc");
    read_axes(row, where, axes, "i", "", problem.input_size);
    read_axes(row, where, axes, "k", "", problem.kernel_size);
    read_axes(row, where, axes, "s", "", problem.stride);
    read_axes(row, where, axes, "d", "", problem.dilation);
    read_axes(row, where, axes, "p", "_l", problem.pad_begin);
    read_axes(row, where, axes, "p", "_r", problem.pad_end);
    if (polyconv_problem_validate(&problem, 1) != POLYCONV_SUCCESS)
      throw Error(kUsage, where + ": " + polyconv_last_error());
    check_output(problem, row, where, axes);
    works.push_back(make_work({problem}));
    works.back().name = row.cells.at("name");
    if (row.cells.count("count") == 0) continue;
    works.back().count = number("count");
    if (works.back().count < 1) throw Error(kUsage, where + ": count must be at least 1");
  }
  return works;
}

} // namespace

std::vector<std::string> suite_names() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator(data_folder("suites"), ignored))
    if (entry.path().extension() == ".txt" || entry.path().extension() == ".csv")
      names.insert(entry.path().stem().string());
  return {names.begin(), names.end()};
}

std::vector<Work> load_suite(const std::string &name, bool expand) {
  const fs::path path = path_of(name);
  std::vector<Work> works = path.extension() == ".csv" ? read_table(path) : read_text(path, expand);
  if (works.empty()) throw Error(kUsage, "the suite " + path.string() + " has no problem");
  for (Work &work : works) work.suite = path.stem().string();
  return works;
}

} // namespace polyconv::bench
