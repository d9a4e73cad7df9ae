// markdown.cpp - a report for an issue or a pull request.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "page/page.hpp"
#include "text/grid.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

constexpr size_t kFirst = 10, kMostRows = 200; // an issue takes 65,536 letters

} // namespace

std::string markdown_of(const ReportPage &page) {
  std::string text = "### " + page.title + "\n\n";
  for (const std::string &fact : page.facts) text += "- " + fact + "\n";
  for (const std::string &warning : page.warnings) text += "- **" + warning + "**\n";
  text += "\n**Look at these first.** " + page.priorities.order + "\n\n";
  for (size_t i = 0; i < page.priorities.advice.size() && i < kFirst; ++i) {
    const Advice &a = page.priorities.advice[i];
    text += format("%zu. ", i + 1) + (a.title == a.problem ? "" : a.title + " ") + "`" + a.problem + "` " + a.why +
            (a.share > 0 ? format(" (%s, %.1f %% of all time)", show_time(a.lost_us).c_str(), 100 * a.share) : "") +
            "\n";
  }
  text += "\n";
  for (const Figure &figure : page.figures) text += "- " + figure.title + ": " + figure.caption + "\n";
  Grid grid({{"problem", false},
             {"type", false},
             {"device", false},
             {"kernel", false},
             {"time", true},
             {"roof", true},
             {"baseline", false},
             {"ratio", true},
             {"status", false}});
  for (size_t i = 0; i < page.rows.size() && i < kMostRows; ++i) {
    const Row &row = page.rows[i];
    grid.add({row.problem, row.type, row.device, row.kernel, row.us ? show_time(*row.us) : "",
              row.roof_pct ? format("%.0f%%", *row.roof_pct) : "", row.baseline,
              row.ratio ? format("%.2f", *row.ratio) : "", row.status});
  }
  text += format("\n<details><summary>%zu rows</summary>\n\n", std::min(page.rows.size(), kMostRows)) +
          grid.markdown() + "\n</details>\n";
  if (page.rows.size() > kMostRows) text += format("\n%zu more rows are not shown.\n", page.rows.size() - kMostRows);
  return text;
}

} // namespace polyconv::bench
