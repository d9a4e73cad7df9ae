// planes.cpp - two quantities of each row over one another: the time on two devices, and the error beside its bound.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "numbers/statistics.hpp"
#include "page/figures.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

struct Point {
  double x, y;
  size_t colour, row;
};

struct Plane {
  std::vector<Point> points;
  std::string x_axis, y_axis;
  std::vector<std::string> keys;
  bool diagonal = false; // where both are equal
  double level = 0;      // a horizontal line, 0 for none
};

Picture draw(const Plane &plane, double width) {
  const double left = 50, top = 24, right = 14, plot_width = width - left - right;
  const double plot_height = std::min(360.0, std::max(220.0, width * 0.42));
  const bool narrow = width < 500;
  Picture picture(width, top + plot_height + 44 + (narrow ? 18.0 * static_cast<double>(plane.keys.size()) : 20));
  double x0 = 1e300, x1 = 0, y0 = 1e300, y1 = plane.level;
  for (const Point &p : plane.points)
    x0 = std::min(x0, p.x), x1 = std::max(x1, p.x), y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
  const LogAxis x(x0, x1, left, plot_width), y(y0, y1, top + plot_height, -plot_height);
  for (const double tick : x.ticks(narrow ? 4 : 9)) {
    picture.line(x.at(tick), top, x.at(tick), top + plot_height, "grid");
    picture.text(x.at(tick), top + plot_height + 16, "middle", tick_label(tick), "dim");
  }
  for (const double tick : y.ticks(7)) {
    picture.line(left, y.at(tick), left + plot_width, y.at(tick), "grid");
    picture.text(left - 6, y.at(tick) + 4, "end", tick_label(tick), "dim");
  }
  picture.text(4, 14, "start", plane.y_axis, "dim");
  picture.text(left + plot_width, top + plot_height + 34, "end", plane.x_axis, "dim");
  const double low = std::pow(10, std::max(x.low(), y.low())), high = std::pow(10, std::min(x.high(), y.high()));
  if (plane.diagonal && low < high) picture.line(x.at(low), y.at(low), x.at(high), y.at(high), "one");
  if (plane.level > 0) picture.line(left, y.at(plane.level), left + plot_width, y.at(plane.level), "one");
  for (const Point &p : plane.points) picture.point(x.at(p.x), y.at(p.y), p.colour, p.row);
  double at = left;
  for (size_t i = 0; i < plane.keys.size() && (narrow || at < left + plot_width - 120); ++i)
    at = picture.key(narrow ? left : at, top + plot_height + 56 + (narrow ? 18.0 * static_cast<double>(i) : 0), i,
                     plane.keys[i]);
  return picture;
}

size_t place_of(std::vector<std::string> &names, const std::string &name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  if (names.size() == kColours) return kColours - 1;
  names.push_back(name);
  return names.size() - 1;
}

} // namespace

Figures device_figures(const std::vector<Row> &rows) {
  std::map<std::string, std::vector<Row>> by_device;
  for (const Row &row : chosen_of(rows))
    if (row.good() && row.us) by_device[row.device].push_back(row);
  if (by_device.size() < 2) return {};
  // The one whose rows come first is what others are set beside: the CPU, as people list it.
  const std::string first = rows.front().device;
  Figures figures;
  for (const auto &[device, others] : by_device) {
    if (device == first) continue;
    Plane plane = {{}, "time on " + first + ", us", "time on " + device + ", us", {}, true, 0};
    std::vector<double> ratios;
    std::map<std::string, const Row *> mine;
    for (const Row &row : by_device[first]) mine[row.suite + "\n" + row.problem + "\n" + row.math] = &row;
    for (const Row &row : others) {
      const auto match = mine.find(row.suite + "\n" + row.problem + "\n" + row.math);
      if (match == mine.end()) continue;
      plane.points.push_back({*match->second->us, *row.us, place_of(plane.keys, row.type), row.index});
      ratios.push_back(*match->second->us / *row.us);
    }
    if (ratios.size() < 2) continue;
    const auto slower = std::count_if(ratios.begin(), ratios.end(), [](double r) { return r < 1; });
    figures.push_back(
        {format("devices-%zu", figures.size() + 1), std::string(first).append(" beside ").append(device),
         format("%zu problems on both: %s is %.3g times as fast in the geometric mean, and slower on %lld, "
                "which lie above the line.",
                ratios.size(), device.c_str(), geometric_mean(ratios), static_cast<long long>(slower)),
         [plane](double width) { return draw(plane, width); }});
  }
  return figures;
}

Figures error_figures(const std::vector<Row> &rows) {
  Plane plane = {{}, "relative error (L2)", "% of the bound", {}, false, 100};
  double most = 0;
  for (const Row &row : rows) {
    if (!row.error || !row.bound_pct) continue;
    const std::string name = row.type + (row.math == "strict" ? "" : " " + row.math);
    plane.points.push_back({*row.error, *row.bound_pct, place_of(plane.keys, name), row.index});
    most = std::max(most, *row.bound_pct);
  }
  if (plane.points.size() < 2) return {};
  return {
      {"error", "Error beside its bound",
       format("%zu rows were checked against f64. The worst element of all takes %.3g %% of what rounding may do to "
              "it; the line is 100 %%, above which a row is wrong.",
              plane.points.size(), most),
       [plane](double width) { return draw(plane, width); }}};
}

} // namespace polyconv::bench
