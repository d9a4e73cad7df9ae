// report_command.cpp - `polyconv-bench report`: results of `run` as one page, its pictures, or Markdown for an issue.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>

#include "command/commands.hpp"
#include "judge/changes.hpp"
#include "page/page.hpp"
#include "system/whole_file.hpp"

namespace polyconv::bench {

namespace {

// "html" or "markdown": as asked for, else by the ending of the file.
std::string report_format(const Arguments &a) {
  if (!a.output.empty()) return a.output;
  const std::string ending = std::filesystem::path(a.out_file).extension().string();
  if (ending == ".md") return "markdown";
  if (ending == ".html" || ending == ".htm" || a.out_file.empty()) return "html";
  throw Error(kUsage, "--out: '" + a.out_file + "' ends in " + (ending.empty() ? "nothing" : ending) +
                          "; expected .html or .md, or say --format");
}

// What changed since the files of --against, of the rows as the page numbers them.
std::vector<Change> changes_since(const Arguments &a, const std::vector<Result> &results) {
  if (a.against.empty()) return {};
  const Runs olds = read_runs(a.against);
  const std::string machine = results.front().at("device_name"), before = olds.front().front().at("device_name");
  if (machine != before)
    std::cerr << "polyconv-bench: --against was measured on another device: " << before << ", not " << machine << "\n";
  Tolerance tolerance;
  tolerance.spread = known_spread(machine).value_or(0);
  std::map<std::string, size_t> places;
  const std::vector<Result> rows = last_of_each(results);
  for (size_t i = 0; i < rows.size(); ++i) places[key_of(rows[i])] = i;
  std::vector<Change> changes;
  for (const RowChange &c : changes_between(olds, {results}, tolerance))
    if (c.change) changes.push_back({places.at(key_of(*c.after)), *c.change, *c.low, *c.high});
  if (changes.empty())
    std::cerr << "polyconv-bench: --against has no row that was measured here too: problem, device, kernel asked for, "
                 "math, threads, cache and baseline must be the same\n";
  return changes;
}

void write_pictures(const ReportPage &page, const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(kUsage, "--pictures: cannot make the folder " + folder + ": " + error.message());
  for (const auto &[name, text] : picture_files(page))
    write_whole((std::filesystem::path(folder) / name).string(), text);
}

} // namespace

int report_command(const Arguments &a) {
  const std::string format = report_format(a);
  const std::vector<Result> results = read_all_results(a.result_files);
  const ReportPage page = make_report(results, changes_since(a, results), a.title);
  const std::string text = format == "markdown" ? markdown_of(page) : html_of(page);
  if (!a.pictures.empty()) write_pictures(page, a.pictures);
  if (!a.out_file.empty()) {
    write_whole(a.out_file, text);
  } else if (a.pictures.empty()) {
    std::cout << text;
  }
  return kGood;
}

} // namespace polyconv::bench
