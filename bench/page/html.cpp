// html.cpp - a report as one page. Its frame, style and script are files of assets/; here they meet the rows.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "chart/chart.hpp"
#include "page/assets.hpp"
#include "page/page.hpp"
#include "result/json.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

using chart::escaped;

namespace {

constexpr size_t kFirst = 8;                 // layers on the first screen
constexpr double kWide = 900, kNarrow = 340; // pixels of the two widths that a picture is drawn in

// Every string once, and rows as lists of numbers: a page of thousands of rows stays small.
class Data {
 public:
  std::string text(const std::string &value) {
    const auto [found, added] = places_.try_emplace(value, strings_.size());
    if (added) strings_.push_back(json_string(value));
    return std::to_string(found->second);
  }
  static std::string number(const std::optional<double> &value) { return value ? format("%.4g", *value) : "0"; }
  const std::vector<std::string> &strings() const { return strings_; }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::string> strings_;
};

// {"strings": [...], "columns": [[title, "s" or "n"]...], "rows": [[...]...]}: page.js shows it as a table.
std::string data_of(const std::vector<Row> &rows) {
  Data data;
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const Row &row : rows) {
    lines.push_back(
        "[" +
        join({data.text(row.name), data.text(row.problem), data.text(row.suite), data.text(row.type),
              data.text(row.device), data.text(row.kernel), data.text(row.math), Data::number(row.us),
              Data::number(row.low_us), Data::number(row.high_us), std::to_string(row.count), Data::number(row.gflops),
              Data::number(row.roof_pct), data.text(row.baseline), Data::number(row.ratio), Data::number(row.error),
              Data::number(row.bound_pct), data.text(row.status), data.text(row.reason)},
             ",") +
        "]");
  }
  std::string json = "{\"strings\":[" + join(data.strings(), ",") + "],\"rows\":[\n" + join(lines, ",\n") + "]}";
  for (size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3) json.replace(at, 2, "<\\/");
  return json;
}

std::string list_of(const std::vector<std::string> &sentences) {
  std::string html;
  for (const std::string &sentence : sentences) html += "<li>" + escaped(sentence) + "</li>\n";
  return html;
}

std::string first_of(const Priorities &priorities) {
  std::string html;
  const double most = priorities.advice.empty() ? 0 : [&] {
    double share = 0;
    for (const Advice &a : priorities.advice) share = std::max(share, a.share);
    return share;
  }();
  for (size_t i = 0; i < priorities.advice.size() && i < kFirst; ++i) {
    const Advice &a = priorities.advice[i];
    html += format("<li><a href=\"#rows\" data-r=\"%zu\">", a.row) + escaped(a.title) + "</a>";
    if (a.title != a.problem) html += " <code>" + escaped(a.problem) + "</code>";
    html += "<span class=\"why\">" + escaped(a.why) + "</span><span class=\"dim\">" + escaped(a.where);
    if (a.share > 0)
      html += format("; %s, %.1f %% of all time</span><span class=\"share\" style=\"width:%.1f%%\"></span>",
                     show_time(a.lost_us).c_str(), 100 * a.share, 100 * a.share / most);
    else
      html += "</span>";
    html += "</li>\n";
  }
  return html;
}

std::string figures_of(const Figures &figures) {
  std::string html;
  for (const Figure &figure : figures) {
    const std::string label = figure.title + ". " + figure.caption;
    html += "<section id=\"" + figure.id + "\"><h2>" + escaped(figure.title) + "</h2>\n<p>" + escaped(figure.caption) +
            "</p>\n<div class=\"wide\">" + figure.draw(kWide).inline_svg(label) + "</div>\n<div class=\"narrow\">" +
            figure.draw(kNarrow).inline_svg(label) + "</div></section>\n";
  }
  return html;
}

std::string links_of(const Figures &figures) {
  std::string html;
  for (const Figure &figure : figures) html += "<a href=\"#" + figure.id + "\">" + escaped(figure.title) + "</a>\n";
  return html + "<a href=\"#rows\">All rows</a>\n";
}

// Puts values in the places of a template, {{name}}. Each place is filled once, in one pass: a value may hold braces.
std::string filled(const std::string &text, const std::map<std::string, std::string> &values) {
  std::string result;
  size_t at = 0;
  while (true) {
    const size_t open = text.find("{{", at);
    if (open == std::string::npos) return result + text.substr(at);
    const size_t close = text.find("}}", open);
    result += text.substr(at, open - at) + values.at(text.substr(open + 2, close - open - 2));
    at = close + 2;
  }
}

} // namespace

std::string html_of(const ReportPage &page) {
  const size_t more = page.priorities.advice.size() > kFirst ? page.priorities.advice.size() - kFirst : 0;
  return filled(
      kPageTemplate,
      {{"title", escaped(page.title)},
       {"style", std::string(kPageStyle) + kPictureStyle},
       {"script", kPageScript},
       {"facts", list_of(page.facts)},
       {"warnings", page.warnings.empty() ? "" : "<ul class=\"warnings\">\n" + list_of(page.warnings) + "</ul>"},
       {"order", escaped(page.priorities.order)},
       {"first", first_of(page.priorities)},
       {"more", more > 0 ? format("<p class=\"dim\">and %zu more, in <a href=\"#rows\">the table</a>.</p>", more) : ""},
       {"links", links_of(page.figures)},
       {"figures", figures_of(page.figures)},
       {"data", data_of(page.rows)}});
}

} // namespace polyconv::bench
