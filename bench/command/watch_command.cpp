// watch_command.cpp - `polyconv-bench watch`: a folder of result files as trends, file by file and row by row.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "command/commands.hpp"
#include "judge/changes.hpp"
#include "print/output.hpp"
#include "system/machine.hpp"
#include "system/terminal.hpp"
#include "text/grid.hpp"

namespace polyconv::bench {

namespace {

struct Point {
  std::string name, date, device;
  std::vector<Result> rows;
};

// Every result file of the folder, the oldest first. A file that is no result file is told of and left out.
std::vector<Point> points_of(const std::string &folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) throw Error(kUsage, "watch: " + folder + " is no folder");
  std::vector<Point> points;
  for (const std::string &name : file_names(folder, ".jsonl")) {
    try {
      std::vector<Result> rows = read_all_results({(std::filesystem::path(folder) / (name + ".jsonl")).string()});
      const std::string date = rows.front().at("date"), device = rows.front().at("device_name");
      points.push_back({name, date, device, std::move(rows)});
    } catch (const Error &failure) {
      std::cerr << "polyconv-bench: left out: " << failure.what() << "\n";
    }
  }
  if (points.empty()) throw Error(kUsage, "watch: no result file of `run` (*.jsonl) in " + folder);
  std::stable_sort(points.begin(), points.end(), [](const Point &a, const Point &b) { return a.date < b.date; });
  return points;
}

std::string factor(const std::optional<MeanChange> &mean) {
  return mean ? format("%.3f", mean->mean) : "-";
}

// A line a file: its rows beside those of the first file and of the one before.
Grid files_of(const std::vector<Point> &points, const Tolerance &tolerance) {
  Grid grid({{"file", false, Fit::kWrap},
             {"date", false, Fit::kDrop, 1},
             {"good", true},
             {"time of first", true},
             {"of previous", true},
             {"slower", true},
             {"faster", true},
             {"gone", true}});
  for (size_t i = 0; i < points.size(); ++i) {
    const auto good =
        std::count_if(points[i].rows.begin(), points[i].rows.end(), [](const Result &r) { return r.good(); });
    std::vector<std::string> cells = {points[i].name,
                                      points[i].date.substr(0, 16),
                                      format("%lld/%zu", static_cast<long long>(good), points[i].rows.size()),
                                      "1.000",
                                      "",
                                      "",
                                      "",
                                      ""};
    if (i > 0) {
      cells[3] = factor(mean_of(changes_between({points[0].rows}, {points[i].rows}, tolerance)));
      const std::vector<RowChange> changes = changes_between({points[i - 1].rows}, {points[i].rows}, tolerance);
      cells[4] = factor(mean_of(changes));
      const auto count = [&](auto question) {
        return std::to_string(std::count_if(changes.begin(), changes.end(), question));
      };
      cells[5] = count([](const RowChange &c) { return c.word == "slower"; });
      cells[6] = count([](const RowChange &c) { return c.word == "faster"; });
      cells[7] = count([](const RowChange &c) { return c.fails && !c.change; });
    }
    grid.add(cells);
  }
  return grid;
}

struct Trend {
  std::string problem, kernel;
  std::vector<std::optional<double>> times; // in each file
  double best = INFINITY, last = 0;
  bool beyond = false; // the last is slower than the best beyond interval and tolerance

  double change() const { return last / best; }
};

std::optional<double> time_of(const Result &row) {
  const std::optional<double> us = row.number("median_us");
  return row.good() && us && *us > 0 ? us : std::nullopt;
}

// Each row of the last file over all files.
std::vector<Trend> trends_of(const std::vector<Point> &points, const Tolerance &tolerance) {
  std::vector<std::map<std::string, Result>> tables;
  for (const Point &point : points) {
    tables.emplace_back();
    for (const Result &row : point.rows) tables.back()[key_of(row)] = row;
  }
  std::vector<Trend> trends;
  for (const auto &[key, last] : tables.back()) {
    if (!time_of(last)) continue;
    Trend trend = {last.at("problem"), last.at("kernel"), {}, INFINITY, *time_of(last), false};
    const Result *best = nullptr;
    for (const auto &table : tables) {
      const auto row = table.find(key);
      const std::optional<double> us = row == table.end() ? std::nullopt : time_of(row->second);
      trend.times.push_back(us);
      if (us && *us < trend.best) trend.best = *us, best = &row->second;
    }
    trend.beyond = best && changes_between({{*best}}, {{last}}, tolerance).front().word == "slower";
    trends.push_back(std::move(trend));
  }
  std::stable_sort(trends.begin(), trends.end(), [](const Trend &a, const Trend &b) {
    return a.beyond != b.beyond ? a.beyond : a.change() > b.change();
  });
  return trends;
}

// The times as blocks between the least and the most of them; a dot where there is none.
std::string line_of(const Trend &trend) {
  static const char *const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double low = INFINITY, high = 0;
  for (const auto &us : trend.times)
    if (us) low = std::min(low, *us), high = std::max(high, *us);
  std::string line;
  for (const auto &us : trend.times) {
    const double share = us && high > low ? (*us - low) / (high - low) : 0;
    line += us ? kBlocks[static_cast<size_t>(std::lround(share * 7))] : "·";
  }
  return line;
}

Grid rows_of(const std::vector<Trend> &trends, size_t most) {
  Grid grid({{"problem", false, Fit::kHeading},
             {"kernel", false, Fit::kWrap},
             {"best", true},
             {"last", true},
             {"change", true},
             {"trend", false}});
  for (size_t i = 0; i < trends.size() && i < most && trends[i].beyond; ++i)
    grid.add({trends[i].problem, trends[i].kernel, show_time(trends[i].best), show_time(trends[i].last),
              format("%+.1f%%", (trends[i].change() - 1) * 100), line_of(trends[i])});
  return grid;
}

void print(std::ostream &out, const std::vector<Point> &points, const Arguments &a, Tolerance tolerance,
           bool markdown) {
  if (a.spread.empty()) tolerance.spread = known_spread(points.front().device).value_or(0);
  const size_t columns = a.out_file.empty() ? stdout_columns() : 0,
               most = static_cast<size_t>(parse_integer(a.rows, "--rows"));
  const auto text = [&](const Grid &grid) { return markdown ? grid.markdown() : grid.text(columns, nullptr); };
  out << (markdown ? "### " : "") << (points.front().device.empty() ? "unknown device" : points.front().device)
      << "\n\n"
      << text(files_of(points, tolerance));
  const std::vector<Trend> trends = trends_of(points, tolerance);
  const auto beyond = std::count_if(trends.begin(), trends.end(), [](const Trend &t) { return t.beyond; });
  if (beyond == 0) {
    out << format(
        "\nNone of the %zu rows of the last file is slower than its best by more than %.3g%% and its interval.\n",
        trends.size(), 100 * tolerance.most);
    return;
  }
  out << format("\n%lld of %zu rows are slower than their best by more than %.3g%% and their interval:\n\n",
                static_cast<long long>(beyond), trends.size(), 100 * tolerance.most)
      << text(rows_of(trends, most));
}

} // namespace

int watch_command(const Arguments &a) {
  Tolerance tolerance;
  tolerance.most = parse_percent(a.fail_slower, "--fail-slower");
  if (!a.spread.empty()) tolerance.spread = parse_percent(a.spread, "--spread");
  if (parse_integer(a.rows, "--rows") < 0) throw Error(kUsage, "--rows: expected 0 or more, not " + a.rows);
  const std::vector<Point> points = points_of(a.result_files.front());
  std::vector<std::string> devices;
  for (const Point &point : points)
    if (std::find(devices.begin(), devices.end(), point.device) == devices.end()) devices.push_back(point.device);
  Output output(a, {".md"});
  const bool markdown = output_format(a.output, a.out_file) == "markdown";
  for (const std::string &device : devices) {
    std::vector<Point> own;
    for (const Point &point : points)
      if (point.device == device) own.push_back(point);
    if (device != devices.front()) output.stream() << "\n";
    print(output.stream(), own, a, tolerance, markdown);
  }
  output.finish();
  return kGood;
}

} // namespace polyconv::bench
