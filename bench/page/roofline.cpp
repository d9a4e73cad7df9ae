// roofline.cpp - rows under what memory and arithmetic allow.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "page/figures.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// Rows that share both bounds: a type on a number of threads of a device.
struct Cloud {
  std::string name, place; // "f32 on cpu, 1 thread"; "cpu, 1 thread"
  std::string type;
  std::vector<const Row *> rows;
  double slope = 0, level = 0; // bytes and operations a second, in G; level 0 where no row is bounded by it
};

double roof_of(const Row &row) {
  return *row.gflops * 100 / *row.roof_pct;
}

bool has_roof(const Row &row) {
  return row.good() && row.gflops && row.intensity && row.roof_pct;
}

std::string place_of(const Row &row) {
  std::string place = row.device;
  if (!row.threads.empty()) place += ", " + row.threads + (row.threads == "1" ? " thread" : " threads");
  return place;
}

// The bounds that the rows' own roofs show: a roof is the smaller of slope * intensity and the level, so that the
// steepest of a place is memory's, and a roof clearly below it is arithmetic's.
std::vector<Cloud> clouds_of(const std::vector<Row> &rows) {
  std::vector<Cloud> clouds;
  std::map<std::string, double> slopes;
  for (const Row &row : rows) {
    if (!has_roof(row)) continue;
    const std::string place = place_of(row), name = row.type + (row.math == "strict" ? "" : " " + row.math);
    auto found = std::find_if(clouds.begin(), clouds.end(),
                              [&](const Cloud &cloud) { return cloud.place == place && cloud.type == name; });
    if (found == clouds.end())
      found = clouds.insert(found, {std::string(name).append(" on ").append(place), place, name, {}, 0, 0});
    found->rows.push_back(&row);
    slopes[place] = std::max(slopes[place], roof_of(row) / *row.intensity);
  }
  for (Cloud &cloud : clouds) {
    cloud.slope = slopes[cloud.place];
    for (const Row *row : cloud.rows)
      if (roof_of(*row) < 0.99 * cloud.slope * *row->intensity) cloud.level = std::max(cloud.level, roof_of(*row));
  }
  return clouds;
}

struct Plane {
  LogAxis x, y;
};

Plane plane_of(const std::vector<Cloud> &clouds, double left, double top, double width, double height) {
  double x0 = 1e300, x1 = 0, y0 = 1e300, y1 = 0;
  for (const Cloud &cloud : clouds) {
    y1 = std::max(y1, cloud.level);
    for (const Row *row : cloud.rows) {
      x0 = std::min(x0, *row->intensity), x1 = std::max(x1, *row->intensity);
      y0 = std::min(y0, *row->gflops), y1 = std::max(y1, *row->gflops);
    }
  }
  return {LogAxis(x0, x1, left, width), LogAxis(y0, y1 * 1.15, top + height, -height)};
}

// Up the slope until it meets the level, within the frame, and along that.
void draw_bound(Picture &picture, const Plane &plane, const Cloud &cloud) {
  const double left = std::pow(10, plane.x.low()), right = std::pow(10, plane.x.high());
  const double bottom = std::pow(10, plane.y.low()), top = std::pow(10, plane.y.high());
  const double level = cloud.level > 0 ? cloud.level : top, ridge = level / cloud.slope;
  const double from = std::max(left, bottom / cloud.slope), to = std::min(right, ridge);
  if (from < to)
    picture.line(plane.x.at(from), plane.y.at(cloud.slope * from), plane.x.at(to), plane.y.at(cloud.slope * to),
                 "bound");
  if (cloud.level <= 0 || ridge >= right) return;
  picture.line(plane.x.at(std::max(ridge, left)), plane.y.at(level), plane.x.at(right), plane.y.at(level), "bound");
  picture.text(plane.x.at(right) - 4, plane.y.at(level) - 5, "end", cloud.type + " " + show_number(level) + " GFLOP/s",
               "dim");
}

Picture draw(const std::vector<Row> &rows, double width) {
  const std::vector<Cloud> clouds = clouds_of(rows);
  const double left = 46, top = 24, right = 12, plot_width = width - left - right;
  const double plot_height = std::min(420.0, std::max(240.0, width * 0.5));
  const bool narrow = width < 500;
  const double keys = narrow ? 18.0 * static_cast<double>(std::min(clouds.size(), kColours)) : 22;
  Picture picture(width, top + plot_height + 44 + keys);
  const Plane plane = plane_of(clouds, left, top, plot_width, plot_height);
  for (const double tick : plane.x.ticks(narrow ? 5 : 10)) {
    picture.line(plane.x.at(tick), top, plane.x.at(tick), top + plot_height, "grid");
    picture.text(plane.x.at(tick), top + plot_height + 16, "middle", tick_label(tick), "dim");
  }
  for (const double tick : plane.y.ticks(8)) {
    picture.line(left, plane.y.at(tick), left + plot_width, plane.y.at(tick), "grid");
    picture.text(left - 6, plane.y.at(tick) + 4, "end", tick_label(tick), "dim");
  }
  picture.text(4, 14, "start", "GFLOP/s", "dim");
  picture.text(left + plot_width, top + plot_height + 34, "end", "operations a byte", "dim");
  double x = left;
  for (size_t i = 0; i < clouds.size(); ++i) {
    draw_bound(picture, plane, clouds[i]);
    for (const Row *row : clouds[i].rows)
      picture.point(plane.x.at(*row->intensity), plane.y.at(*row->gflops), i % kColours, row->index);
    if (i >= kColours || (!narrow && x > left + plot_width - 150)) continue;
    x = picture.key(narrow ? left : x, top + plot_height + 58 + (narrow ? 18.0 * static_cast<double>(i) : 0), i,
                    clouds[i].name);
  }
  return picture;
}

} // namespace

Figures roofline_figures(const std::vector<Row> &rows) {
  std::vector<double> shares;
  for (const Row &row : rows)
    if (has_roof(row)) shares.push_back(*row.roof_pct);
  if (shares.empty()) return {};
  std::sort(shares.begin(), shares.end());
  const auto below = static_cast<size_t>(std::lower_bound(shares.begin(), shares.end(), 50.0) - shares.begin());
  return {{"roofline", "Under the roof",
           format("%zu rows: half of them reach at least %.0f %% of what memory or arithmetic allow, and %zu less than "
                  "half. Points on the slope wait for memory, those under the level for arithmetic; transforms may lie "
                  "above it, because they do fewer operations than are counted.",
                  shares.size(), shares[shares.size() / 2], below),
           [rows](double width) { return draw(rows, width); }}};
}

std::vector<std::string> ceilings_of(const std::vector<Row> &rows) {
  std::vector<std::pair<std::string, std::string>> places;
  for (const Cloud &cloud : clouds_of(rows)) {
    auto found = std::find_if(places.begin(), places.end(), [&](const auto &p) { return p.first == cloud.place; });
    if (found == places.end())
      found = places.insert(found, {cloud.place, "memory " + show_number(cloud.slope) + " GB/s"});
    if (cloud.level > 0) found->second += ", " + cloud.type + " " + show_number(cloud.level) + " GFLOP/s";
  }
  std::vector<std::string> sentences;
  sentences.reserve(places.size());
  for (const auto &[place, rates] : places) sentences.push_back(std::string(place).append(": ").append(rates));
  return sentences;
}

} // namespace polyconv::bench
