// page.hpp - a report: one HTML page that needs nothing but itself, its pictures as files, or Markdown for an issue.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "page/advice.hpp"
#include "page/figures.hpp"

namespace polyconv::bench {

struct ReportPage {
  std::string title;
  std::vector<std::string> facts;    // machine, versions, date, ceilings: a line each
  std::vector<std::string> warnings; // what a reader must know before the figures
  std::vector<Row> rows;
  Priorities priorities;
  Figures figures;
};

// `results` are what files hold, `changes` what changed since an earlier result, of rows by their key. An empty title
// becomes "polyconv on MACHINE".
ReportPage make_report(const std::vector<Result> &results, const std::vector<Change> &changes,
                       const std::string &title);

std::string html_of(const ReportPage &page);
std::string markdown_of(const ReportPage &page);

// Each picture as a file for papers: its name ("roofline.svg") and its text, light, so many pixels wide.
std::vector<std::pair<std::string, std::string>> picture_files(const ReportPage &page, double width = 760);

} // namespace polyconv::bench
