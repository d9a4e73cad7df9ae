// speedup.cpp - the ratios to a baseline, sorted.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "numbers/distribution.hpp"
#include "page/figures.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

constexpr size_t kBelow = 4, kAbove = 0; // colours: below 1, and from 1 on

std::vector<Row> beside(const std::vector<Row> &rows, const std::string &baseline) {
  std::vector<Row> found;
  for (const Row &row : rows)
    if (row.good() && row.ratio && row.baseline_us && row.us && row.baseline == baseline) found.push_back(row);
  std::stable_sort(found.begin(), found.end(), [](const Row &a, const Row &b) { return *a.ratio < *b.ratio; });
  return found;
}

Picture draw(const std::vector<Row> &sorted, double width) {
  const double left = 46, top = 12, right = 12, plot_width = width - left - right;
  const double plot_height = std::min(300.0, std::max(200.0, width * 0.35));
  Picture picture(width, top + plot_height + 30);
  const double low = std::min(*sorted.front().ratio, 0.8), high = std::max(*sorted.back().ratio, 1.25);
  const LogAxis y(low, high, top + plot_height, -plot_height);
  for (const double tick : y.ticks(7)) {
    picture.line(left, y.at(tick), left + plot_width, y.at(tick), tick == 1 ? "one" : "grid");
    picture.text(left - 6, y.at(tick) + 4, "end", tick_label(tick), "dim");
  }
  picture.line(left, y.at(1), left + plot_width, y.at(1), "one");
  const auto n = static_cast<double>(sorted.size());
  const double step = plot_width / n;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double x = left + step * static_cast<double>(i), ratio = *sorted[i].ratio;
    const double from = y.at(1), to = y.at(ratio);
    const size_t colour = ratio < 1 ? kBelow : kAbove;
    if (step >= 3)
      picture.bar(x, std::min(from, to), step - 1, std::max(1.0, std::abs(from - to)), colour, sorted[i].index);
    else
      picture.point(x + step / 2, to, colour, sorted[i].index);
  }
  const auto slower =
      static_cast<double>(std::count_if(sorted.begin(), sorted.end(), [](const Row &row) { return *row.ratio < 1; }));
  const double border = left + plot_width * slower / n;
  if (slower > 0 && slower < n) picture.line(border, top, border, top + plot_height, "noise");
  const bool crowded = width < 500;
  if (slower > 0 && (!crowded || slower >= n / 2))
    picture.text(left, top + plot_height + 20, "start", format("%.0f slower (%.0f %%)", slower, 100 * slower / n),
                 "dim");
  if (slower < n && (!crowded || slower < n / 2))
    picture.text(left + plot_width, top + plot_height + 20, "end",
                 format("%.0f as fast or faster (%.0f %%)", n - slower, 100 * (n - slower) / n), "dim");
  return picture;
}

} // namespace

Figures speedup_figures(const std::vector<Row> &rows) {
  std::vector<std::string> baselines;
  for (const Row &row : rows)
    if (std::find(baselines.begin(), baselines.end(), row.baseline) == baselines.end() && !row.baseline.empty())
      baselines.push_back(row.baseline);
  Figures figures;
  for (const std::string &baseline : baselines) {
    const std::vector<Row> sorted = beside(rows, baseline);
    if (sorted.size() < 2) continue;
    Distribution distribution;
    for (const Row &row : sorted) distribution.add({row.problem, row.kernel, *row.us, *row.baseline_us, *row.ratio});
    figures.push_back(
        {figures.empty() ? "speedup" : format("speedup-%zu", figures.size() + 1), "Beside " + baseline,
         format(
             "The time of %s over ours, sorted: geometric mean %.2f over %zu rows, %.0f %% of them below 1, the least "
             "%.2f; all their time together %.2f.",
             baseline.c_str(), distribution.geometric_mean(), sorted.size(), 100 * distribution.share_below(1),
             *sorted.front().ratio, distribution.sum_ratio()),
         [sorted](double width) { return draw(sorted, width); }});
  }
  return figures;
}

} // namespace polyconv::bench
