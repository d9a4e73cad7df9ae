// grid.cpp - cells in rows and columns as text.
// SPDX-License-Identifier: Apache-2.0
#include "grid.hpp"

#include <algorithm>

namespace polyconv::bench {

namespace {

// Characters as a terminal counts them: UTF-8 continuation bytes take no room.
size_t width_of(const std::string &text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::string padded(const std::string &text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, width_of(text)), ' ');
  return right ? blanks + text : text + blanks;
}

} // namespace

void Grid::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Grid::widths() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t i = 0; i < columns_.size(); ++i) {
    for (const auto &row : rows_) widths[i] = std::max(widths[i], width_of(row[i]));
    if (widths[i] > 0) widths[i] = std::max(widths[i], width_of(columns_[i].title));
  }
  return widths;
}

std::string Grid::text() const {
  const std::vector<size_t> width = widths();
  std::string text;
  const auto line = [&](const auto &cell_of) {
    std::string row;
    for (size_t i = 0; i < columns_.size(); ++i)
      if (width[i] > 0) row += (row.empty() ? "" : "  ") + padded(cell_of(i), width[i], columns_[i].right);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  };
  line([&](size_t i) { return columns_[i].title; });
  for (const auto &row : rows_) line([&](size_t i) { return row[i]; });
  return text;
}

std::string Grid::markdown() const {
  const std::vector<size_t> width = widths();
  std::string text;
  const auto line = [&](const auto &cell_of) {
    text += "|";
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (width[i] == 0) continue;
      std::string escaped;
      for (char letter : cell_of(i)) escaped += letter == '|' ? std::string("\\|") : std::string(1, letter);
      text += " " + escaped + " |";
    }
    text += "\n";
  };
  line([&](size_t i) { return columns_[i].title; });
  line([&](size_t i) { return std::string(columns_[i].right ? "---:" : "---"); });
  for (const auto &row : rows_) line([&](size_t i) { return row[i]; });
  return text;
}

} // namespace polyconv::bench
