// heat.cpp - sweeps as tables of colours.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "page/figures.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

constexpr size_t kMostMaps = 6, kLeastCells = 6;

// Steps from low to high that colour-blind readers tell apart, and letters on each with a contrast above 4.5.
struct Step {
  const char *fill, *letters;
};
constexpr Step kSteps[] = {{"#440154", "#fff"}, {"#46327e", "#fff"}, {"#365c8d", "#fff"}, {"#1f6f7a", "#fff"},
                           {"#1fa187", "#000"}, {"#4ac16d", "#000"}, {"#a0da39", "#000"}, {"#fde725", "#000"}};

// The dimensions of a layer's token by their letters: "c" is "64", "f" is "3x3".
std::map<std::string, std::string> dimensions_of(const std::string &problem) {
  std::map<std::string, std::string> dimensions;
  if (problem.find('>') != std::string::npos) return dimensions; // a chain has several of each
  const std::vector<std::string> parts = split(problem, ':');
  if (parts.size() < 2) return dimensions;
  for (const std::string &part : split(parts[1], ',')) {
    const size_t digits = part.find_first_of("0123456789");
    if (digits != std::string::npos && digits > 0) dimensions[part.substr(0, digits)] = part.substr(digits);
  }
  return dimensions;
}

struct Map {
  std::string x, y, rest; // the two dimensions, and the token without them
  std::map<std::pair<std::string, std::string>, const Row *> cells;
  std::vector<std::string> xs, ys;
};

bool by_number(const std::string &a, const std::string &b) {
  const double left = std::strtod(a.c_str(), nullptr), right = std::strtod(b.c_str(), nullptr);
  return left != right ? left < right : a < b;
}

// "fwd:n1,c*,k*,i56x56": the row's problem with the two dimensions left open, and all that else makes it another.
std::string rest_of(const Row &row, const std::map<std::string, std::string> &dimensions, const std::string &x,
                    const std::string &y) {
  std::string rest = row.problem.substr(0, row.problem.find(':')) + ":";
  for (const auto &[name, value] : dimensions)
    if (name != x && name != y) rest.append(rest.back() == ':' ? "" : ",").append(name).append(value);
  if (!row.suite.empty()) rest += " of " + row.suite; // other suites' rows would tear holes into its table
  return rest + " " + row.type + " on " + row.device + (row.threads.empty() ? "" : ", " + row.threads + " threads") +
         (row.requested.empty() ? "" : ", " + row.requested);
}

// Every pair of dimensions in which rows that are else alike differ, largest first.
std::vector<Map> maps_of(const std::vector<Row> &rows) {
  struct Swept {
    const Row *row;
    std::map<std::string, std::string> dimensions;
  };
  std::vector<Swept> swept;
  std::map<std::string, std::set<std::string>> values;
  for (const Row &row : rows) {
    if (!row.good() || !row.us) continue;
    swept.push_back({&row, dimensions_of(row.problem)});
    for (const auto &[name, value] : swept.back().dimensions) values[name].insert(value);
  }
  std::vector<Map> maps;
  for (auto x = values.begin(); x != values.end(); ++x)
    for (auto y = std::next(x); y != values.end(); ++y) {
      if (x->second.size() < 2 || y->second.size() < 2) continue;
      std::map<std::string, Map> found;
      for (const Swept &s : swept) {
        const auto in_x = s.dimensions.find(x->first), in_y = s.dimensions.find(y->first);
        if (in_x == s.dimensions.end() || in_y == s.dimensions.end()) continue;
        const std::string rest = rest_of(*s.row, s.dimensions, x->first, y->first);
        Map &map = found.try_emplace(rest, Map{x->first, y->first, rest, {}, {}, {}}).first->second;
        map.cells[{in_x->second, in_y->second}] = s.row;
      }
      for (auto &[rest, map] : found) maps.push_back(std::move(map));
    }
  return maps;
}

// Whether enough of the table is there to be one; its edges in order.
bool is_full(Map &map) {
  std::set<std::string> xs, ys;
  for (const auto &[at, row] : map.cells) xs.insert(at.first), ys.insert(at.second);
  map.xs.assign(xs.begin(), xs.end()), map.ys.assign(ys.begin(), ys.end());
  std::sort(map.xs.begin(), map.xs.end(), by_number), std::sort(map.ys.begin(), map.ys.end(), by_number);
  return xs.size() > 1 && ys.size() > 1 && map.cells.size() >= kLeastCells &&
         map.cells.size() * 10 >= 6 * xs.size() * ys.size();
}

bool all_have_ratios(const Map &map) {
  return std::all_of(map.cells.begin(), map.cells.end(),
                     [](const auto &cell) { return cell.second->ratio.has_value(); });
}

double value_of(const Row &row, bool ratios) {
  return ratios ? *row.ratio : row.gflops.value_or(1 / *row.us);
}

Picture draw(const Map &map, double width) {
  const bool ratios = all_have_ratios(map);
  const double left = 56, top = 22, row = 30;
  const double column = std::min(90.0, (width - left - 4) / static_cast<double>(map.xs.size()));
  Picture picture(width, top + row * static_cast<double>(map.ys.size()) + 8);
  double low = 1e300, high = 0;
  for (const auto &[at, cell] : map.cells)
    low = std::min(low, value_of(*cell, ratios)), high = std::max(high, value_of(*cell, ratios));
  picture.text(4, 14, "start", map.y + " \\ " + map.x, "dim");
  for (size_t i = 0; i < map.xs.size(); ++i)
    picture.text(left + column * (static_cast<double>(i) + 0.5), 14, "middle", shortened(map.xs[i], column), "dim");
  for (size_t j = 0; j < map.ys.size(); ++j) {
    const double y = top + row * static_cast<double>(j);
    picture.text(left - 6, y + row / 2 + 4, "end", shortened(map.ys[j], left - 8), "dim");
    for (size_t i = 0; i < map.xs.size(); ++i) {
      const auto cell = map.cells.find({map.xs[i], map.ys[j]});
      if (cell == map.cells.end()) continue;
      const double value = value_of(*cell->second, ratios);
      const double share = high > low ? std::log(value / low) / std::log(high / low) : 1;
      const Step &step = kSteps[std::min<size_t>(7, static_cast<size_t>(share * 8))];
      const std::string words = ratios ? format("%.2f", value) : tick_label(value);
      picture.cell(left + column * static_cast<double>(i) + 1, y + 1, column - 2, row - 2, step.fill, step.letters,
                   kLetter * static_cast<double>(words.size()) < column ? words : "", cell->second->index);
    }
  }
  return picture;
}

} // namespace

Figures heat_figures(const std::vector<Row> &rows) {
  std::vector<Map> maps = maps_of(rows);
  maps.erase(std::remove_if(maps.begin(), maps.end(), [](Map &map) { return !is_full(map); }), maps.end());
  std::stable_sort(maps.begin(), maps.end(),
                   [](const Map &a, const Map &b) { return a.cells.size() > b.cells.size(); });
  if (maps.size() > kMostMaps) maps.resize(kMostMaps);
  Figures figures;
  for (const Map &map : maps) {
    const bool ratios = all_have_ratios(map);
    figures.push_back({format("heat-%zu", figures.size() + 1), "Sweep of " + map.x + " and " + map.y,
                       map.rest + (ratios ? ": the time of the baseline over ours" : ": GFLOP/s") + ", yellow is high.",
                       [map](double width) { return draw(map, width); }});
  }
  return figures;
}

} // namespace polyconv::bench
