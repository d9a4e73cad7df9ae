// difference.cpp - what changed since an earlier result, with the noise.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "numbers/statistics.hpp"
#include "page/figures.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

constexpr size_t kSlower = 4, kFaster = 2, kSame = 7; // colours

size_t colour_of(const Change &change) {
  return change.low > 1 ? kSlower : change.high < 1 ? kFaster : kSame;
}

Picture draw(const std::vector<Change> &sorted, double width) {
  const double left = 50, top = 12, right = 12, plot_width = width - left - right;
  const double plot_height = std::min(300.0, std::max(200.0, width * 0.35));
  Picture picture(width, top + plot_height + 30);
  double low = 0.9, high = 1.1;
  for (const Change &c : sorted) low = std::min(low, c.low), high = std::max(high, c.high);
  const LogAxis y(low, high, top + plot_height, -plot_height);
  for (const double tick : y.ticks(7)) {
    picture.line(left, y.at(tick), left + plot_width, y.at(tick), "grid");
    picture.text(left - 6, y.at(tick) + 4, "end", tick_label(tick), "dim");
  }
  picture.line(left, y.at(1), left + plot_width, y.at(1), "one");
  const double step = plot_width / static_cast<double>(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double x = left + step * (static_cast<double>(i) + 0.5);
    picture.line(x, y.at(sorted[i].low), x, y.at(sorted[i].high), "noise");
    picture.point(x, y.at(sorted[i].change), colour_of(sorted[i]), sorted[i].row);
  }
  double at = picture.key(left, top + plot_height + 22, kSlower, "slower");
  at = picture.key(at, top + plot_height + 22, kFaster, "faster");
  picture.key(at, top + plot_height + 22, kSame, "within the noise");
  return picture;
}

} // namespace

Figures difference_figures(const std::vector<Change> &changes) {
  if (changes.empty()) return {};
  std::vector<Change> sorted = changes;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Change &a, const Change &b) { return a.change > b.change; });
  std::vector<double> values;
  size_t slower = 0, faster = 0;
  for (const Change &c : sorted) {
    values.push_back(c.change);
    slower += c.low > 1 ? 1 : 0, faster += c.high < 1 ? 1 : 0;
  }
  return {
      {"difference", "Since the earlier result",
       format("New time over old of %zu rows, the slowest first, each with the interval in which it lies with 95 %%: "
              "geometric mean %.3f; %zu slower and %zu faster beyond the noise.",
              sorted.size(), geometric_mean(values), slower, faster),
       [sorted](double width) { return draw(sorted, width); }}};
}

} // namespace polyconv::bench
