// plot_command.cpp - `polyconv-bench plot`: results of `run` as a picture, a field over another, a line for each value
// of a third; or each row as a point under the roofline.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>

#include "chart/chart.hpp"
#include "command/commands.hpp"
#include "result/results.hpp"

namespace polyconv::bench {

namespace {

// The number of a field of the token's dimensions: "i" of "fwd:n1,c3,k8,i64x64,f3x3" is 64; "2.k" that of the chain's
// layer 2. "" where there is none.
std::string dimension(const std::string &problem, const std::string &field) {
  const size_t dot = field.find('.');
  const size_t layer = dot == std::string::npos ? 0 : static_cast<size_t>(std::atoi(field.c_str()));
  const std::string name = dot == std::string::npos ? field : field.substr(dot + 1);
  const std::vector<std::string> layers = split(problem, '>');
  if (layer >= layers.size()) return "";
  const std::vector<std::string> parts = split(layers[layer], ':');
  for (const std::string &part : split(parts.size() > 1 ? parts[1] : "", ','))
    if (part.rfind(name, 0) == 0 && part.size() > name.size() &&
        std::isdigit(static_cast<unsigned char>(part[name.size()])) != 0)
      return part.substr(name.size(), part.find('x') - name.size());
  return "";
}

// A field of the record, or of its problem; "config" is what stands behind the kernel's '@'.
std::string value_of(const Result &row, const std::string &field) {
  if (field == "config" || field == "kernel") {
    const std::string kernel = row.at("kernel");
    const size_t at = kernel.find('@');
    if (field == "config") return at == std::string::npos ? "" : kernel.substr(at + 1);
    return without_configs(kernel);
  }
  if (field == "grouping" && row.at("grouping").empty()) return "(best)";
  const std::string own = row.at(field);
  return own.empty() ? dimension(row.at("problem"), field) : own;
}

size_t place_of(std::vector<std::string> &list, const std::string &value) {
  const auto found = std::find(list.begin(), list.end(), value);
  if (found != list.end()) return static_cast<size_t>(found - list.begin());
  list.push_back(value);
  return list.size() - 1;
}

// "k = 8": a number alone would say nothing beside its line.
std::string name_of(const std::string &field, const std::string &value) {
  const bool number = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos;
  return number ? field + " = " + value : value;
}

// The least number not below `high` whose quarters are round.
double round_up(double high) {
  const double unit = std::pow(10, std::floor(std::log10(high / 4)));
  for (const double quarter : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5})
    if (4 * quarter * unit >= high) return 4 * quarter * unit;
  return 40 * unit;
}

// What a row reaches over how many operations it has for each byte, and the roof above it.
struct Row {
  double intensity, gflops, roof;
};

std::optional<Row> under_roof(const Result &row) {
  const auto us = row.number("median_us"), gflop = row.number("gflop"), bytes = row.number("bytes"),
             percent = row.number("roofline_pct");
  if (row.at("status") != "good" || !us || !gflop || !bytes || !percent) return std::nullopt;
  if (*us <= 0 || *gflop <= 0 || *bytes <= 0 || *percent <= 0) return std::nullopt;
  const double gflops = *gflop * 1e6 / *us;
  return Row{*gflop * 1e9 / *bytes, gflops, gflops * 100 / *percent};
}

// The bounds that the rows' own roofs show. That of memory is the steepest of all; a cloud has one of arithmetic where
// the roof of some row lies below that.
void find_bounds(std::vector<chart::Cloud> &clouds, const std::vector<std::vector<Row>> &rows) {
  double slope = 0;
  for (const std::vector<Row> &cloud : rows)
    for (const Row &row : cloud) slope = std::max(slope, row.roof / row.intensity);
  for (size_t i = 0; i < clouds.size(); ++i) {
    clouds[i].slope = slope;
    for (const Row &row : rows[i])
      if (row.roof < 0.99 * slope * row.intensity) clouds[i].level = std::max(clouds[i].level, row.roof);
  }
}

std::string roofline(const Arguments &a) {
  std::vector<std::string> names;
  std::vector<chart::Cloud> clouds;
  std::vector<std::vector<Row>> rows;
  for (const Result &result : read_all_results(a.result_files)) {
    const std::optional<Row> row = under_roof(result);
    if (!row) continue;
    const size_t place = place_of(names, value_of(result, a.plot_by));
    clouds.resize(names.size()), rows.resize(names.size());
    clouds[place].name = name_of(a.plot_by, names[place]);
    const std::string words =
        result.at("problem") + " " + result.at("type") + ", " + without_configs(result.at("kernel"));
    clouds[place].points.push_back(
        {row->intensity, row->gflops,
         words + chart::formatted(": %.4g us, %.0f %% of the roof", *result.number("median_us"),
                                  100 * row->gflops / row->roof)});
    rows[place].push_back(*row);
  }
  if (clouds.empty())
    throw Error(kUsage,
                "no good row has a roof: measure ceilings first (polyconv-bench info --ceilings), then run "
                "again with -o jsonl");
  find_bounds(clouds, rows);
  return chart::clouds(a.plot_title, "operations a byte", "GFLOP/s", clouds);
}

// Where the picture goes: stdout, or the file of --out.
int write(const Arguments &a, const std::string &picture) {
  Output output(a, {".svg"});
  output.stream() << picture;
  output.finish();
  return kGood;
}

} // namespace

int plot_command(const Arguments &a) {
  if (a.roofline) return write(a, roofline(a));
  if (a.plot_x.empty()) throw Error(kUsage, "plot wants --x FIELD, or --roofline");
  std::vector<std::string> labels, names;
  std::vector<std::vector<double>> values; // by series and label
  double high = 0;
  for (const Result &row : read_all_results(a.result_files)) {
    const std::optional<double> y = row.number(a.plot_y);
    const std::string x = value_of(row, a.plot_x);
    if (row.at("status") != "good" || !y || x.empty()) continue;
    const size_t label = place_of(labels, x), series = place_of(names, name_of(a.plot_by, value_of(row, a.plot_by)));
    values.resize(names.size());
    for (auto &line : values) line.resize(labels.size(), std::numeric_limits<double>::quiet_NaN());
    values[series][label] = *y;
    high = std::max(high, *y);
  }
  if (labels.empty())
    throw Error(kUsage, "no good row has both " + a.plot_x + " and a number " + a.plot_y +
                            "; expected fields of `run -o "
                            "jsonl`, config, or a letter of the problem's token");
  chart::Panel panel = {a.plot_y + " over " + a.plot_x, labels, {}, 0, high > 0 ? round_up(high) : 1, false};
  for (size_t i = 0; i < names.size(); ++i) panel.series.push_back({names[i], "", values[i]});
  return write(a, chart::lines(a.plot_title, {panel}));
}

} // namespace polyconv::bench
