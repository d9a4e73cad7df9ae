// report.cpp - what a report says, whatever it is written as.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "numbers/statistics.hpp"
#include "page/page.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// The distinct values of a field, in their order, joined.
std::string all_of(const std::vector<Result> &results, const char *field) {
  std::vector<std::string> values;
  for (const Result &result : results) {
    const std::string value = result.at(field);
    if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return join(values, ", ");
}

std::string days_of(const std::vector<Result> &results) {
  std::set<std::string> days;
  for (const Result &result : results)
    if (result.at("date").size() >= 10) days.insert(result.at("date").substr(0, 10));
  if (days.empty()) return "";
  return days.size() == 1 ? *days.begin() : *days.begin() + " to " + *days.rbegin();
}

std::string plural(size_t number, const char *word) {
  return format("%zu %s%s", number, word, number == 1 ? "" : "s");
}

std::vector<std::string> warnings_of(const std::vector<Row> &rows) {
  std::vector<std::string> warnings;
  size_t bad = 0, unsteady = 0, fallback = 0, above = 0;
  for (const Row &row : rows) {
    bad += row.good() || row.status == "skipped" ? 0 : 1;
    unsteady += row.us && row.p95_us && *row.p95_us > 2 * *row.us ? 1 : 0;
    fallback += row.fallback ? 1 : 0;
    above += row.roof_pct && *row.roof_pct > 105 ? 1 : 0;
  }
  if (bad > 0) warnings.push_back(plural(bad, "row") + " not measured or not right: sort the table by status.");
  if (unsteady > 0)
    warnings.push_back(plural(unsteady, "row") +
                       " with a p95 above twice the median: the machine was busy with something else.");
  if (fallback > 0)
    warnings.push_back(plural(fallback, "row") + " on a fallback: a general kernel, because no faster one takes it.");
  if (above > 0)
    warnings.push_back(plural(above, "row") +
                       " above the roof: a transform does fewer operations than are counted, or the ceilings were "
                       "measured on a busier machine.");
  return warnings;
}

} // namespace

ReportPage make_report(const std::vector<Result> &all, const std::vector<Change> &changes, const std::string &title) {
  const std::vector<Result> results = last_of_each(all);
  ReportPage page;
  page.rows = rows_of(results);
  const std::string machines = all_of(results, "device_name");
  page.title = !title.empty() ? title : "polyconv on " + (machines.empty() ? "an unknown machine" : machines);
  const std::string drivers = all_of(results, "driver"), versions = all_of(results, "library_version"),
                    days = days_of(results);
  page.facts.push_back((machines.empty() ? "an unknown machine" : machines) +
                       (drivers.empty() ? "" : " (" + drivers + ")"));
  page.facts.push_back((versions.empty() ? "" : "polyconv " + versions + ", ") + plural(page.rows.size(), "row") +
                       (days.empty() ? "" : ", " + days));
  const std::vector<std::string> ceilings = ceilings_of(page.rows);
  if (ceilings.empty())
    page.facts.emplace_back(
        "no ceilings were known: polyconv-bench info --ceilings measures them, and the next run has a roof");
  for (const std::string &ceiling : ceilings) page.facts.push_back("ceilings of " + ceiling);
  page.warnings = warnings_of(page.rows);
  page.priorities = advise(page.rows);
  for (Figures &figures :
       std::vector<Figures>{difference_figures(changes), speedup_figures(page.rows), roofline_figures(page.rows),
                            layer_figures(page.rows, results), device_figures(page.rows), heat_figures(page.rows),
                            error_figures(page.rows)})
    for (Figure &figure : figures) page.figures.push_back(std::move(figure));
  return page;
}

std::vector<std::pair<std::string, std::string>> picture_files(const ReportPage &page, double width) {
  std::vector<std::string> words;
  words.reserve(page.rows.size());
  for (const Row &row : page.rows) words.push_back(words_of(row));
  std::vector<std::pair<std::string, std::string>> files;
  for (const Figure &figure : page.figures)
    files.emplace_back(figure.id + ".svg", figure.draw(width).file(figure.title, words));
  return files;
}

} // namespace polyconv::bench
