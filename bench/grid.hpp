// grid.hpp - cells in rows and columns as text: aligned for a terminal, or as a Markdown table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace polyconv::bench {

class Grid {
 public:
  struct Column {
    std::string title;
    bool right; // numbers stand right
  };

  explicit Grid(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Two blanks between columns; a column whose every cell is empty is left out.
  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<size_t> widths() const; // 0 for a column that is left out

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace polyconv::bench
