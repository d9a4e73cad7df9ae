// csv.cpp - reading the tables of suites and expectations, and quoting for those that are written.
// SPDX-License-Identifier: Apache-2.0
#include "text/csv.hpp"

#include <algorithm>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

std::vector<std::string> cells_of(const std::string &line, const std::string &where) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += line[i];
  }
  if (quoted) throw Error(kUsage, where + ": a quote is not closed");
  for (std::string &cell : cells) cell = trim(cell);
  return cells;
}

} // namespace

std::vector<CsvRow> read_csv(const std::string &path, const std::vector<std::string> &required) {
  std::vector<CsvRow> rows;
  std::vector<std::string> header;
  int number = 0;
  for (const std::string &line : read_lines(path)) {
    ++number;
    if (trim(line).empty() || trim(line)[0] == '#') continue;
    const std::string where = format("%s:%d", path.c_str(), number);
    const std::vector<std::string> cells = cells_of(line, where);
    if (header.empty()) {
      header = cells;
      for (const std::string &column : required)
        if (std::find(header.begin(), header.end(), column) == header.end())
          throw Error(kUsage, format("%s: the header has no column '%s'; expected %s", where.c_str(), column.c_str(),
                                     join(required, ",").c_str()));
      continue;
    }
    if (cells.size() != header.size())
      throw Error(kUsage, format("%s: %zu cells where the header has %zu", where.c_str(), cells.size(), header.size()));
    CsvRow row{number, {}};
    for (size_t i = 0; i < cells.size(); ++i) row.cells[header[i]] = cells[i];
    rows.push_back(row);
  }
  if (header.empty()) throw Error(kUsage, path + ": no header line; expected " + join(required, ","));
  return rows;
}

std::string csv_quote(const std::string &cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (char letter : cell) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

} // namespace polyconv::bench
