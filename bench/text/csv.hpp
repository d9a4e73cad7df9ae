// csv.hpp - reading the tables of suites and expectations, and quoting for those that are written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace polyconv::bench {

struct CsvRow {
  int line; // in the file, 1 first
  std::map<std::string, std::string> cells;
};

// Reads a table whose first line names the columns; '#' begins a comment line, empty lines are skipped, quotes as
// in RFC 4180 on one line. Every row must have as many cells as the header; `required` columns must exist.
// Error(kUsage) naming file and line.
std::vector<CsvRow> read_csv(const std::string &path, const std::vector<std::string> &required);

std::string csv_quote(const std::string &cell);

} // namespace polyconv::bench
