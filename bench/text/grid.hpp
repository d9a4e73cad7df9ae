// grid.hpp - cells in rows and columns as text: aligned for a terminal, or as a Markdown table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "text/tone.hpp"

namespace polyconv::bench {

// What becomes of a column where a line has no room for all.
enum class Fit {
  kKeep,    // it stays
  kHeading, // its cells stand above their rows, each once
  kBelow,   // its cells stand below their rows
  kWrap,    // its cells take several lines
  kDrop     // it is left out, those of a higher rank first
};

class Grid {
 public:
  struct Column {
    std::string title;
    bool right; // numbers stand right
    Fit fit = Fit::kKeep;
    int rank = 0;
  };

  explicit Grid(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells, Tone tone = Tone::kPlain);
  bool empty() const { return rows_.empty(); }

  // Two blanks between columns; a column whose every cell is empty is left out.
  std::string text() const;
  std::string markdown() const;

  // The same in lines of up to `columns` characters (0: any number), where the columns' Fit allows it. The titles of
  // what is left out are appended to *left_out, which may be NULL. `coloured` says rows' tones, and titles stand out.
  std::string text(size_t columns, std::vector<std::string> *left_out, bool coloured = false) const;

 private:
  struct Layout;

  std::vector<size_t> widths() const; // 0 for a column that is left out
  Layout layout_for(size_t columns, std::vector<std::string> *left_out) const;
  void append_row(const Layout &layout, const std::vector<std::string> &row, Tone tone, std::string *text) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<Tone> tones_; // of the rows
};

} // namespace polyconv::bench
