// grid.cpp - cells in rows and columns as text.
// SPDX-License-Identifier: Apache-2.0
#include "text/grid.hpp"

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

constexpr size_t kGap = 2;           // blanks between columns
constexpr size_t kDeep = 6;          // before what stands below a row
constexpr size_t kLeastWrapped = 12; // characters of a cell that takes several lines
constexpr size_t kWellWrapped = 30;  // of one that still reads well, before others are left out for it

// A cell in lines of at most `width` characters: broken after a blank or a mark that names are made of, where there is
// one, else anywhere.
std::vector<std::string> pieces(const std::string &cell, size_t width) {
  std::vector<std::string> lines;
  std::string rest = cell;
  while (width_of(rest) > width) {
    size_t most = 0; // as many bytes as `width` characters have
    for (size_t characters = 0; characters <= width; ++most)
      if ((static_cast<unsigned char>(rest[most]) & 0xC0) != 0x80 && ++characters > width) break;
    size_t cut = rest.find_last_of(" ,+/:", most - 1);
    if (cut == std::string::npos || cut < most / 4) cut = most - 1;
    if (rest[most] == ' ') cut = most;
    lines.push_back(rest.substr(0, cut + 1));
    lines.back().erase(lines.back().find_last_not_of(' ') + 1);
    rest = rest.substr(std::min(rest.find_first_not_of(' ', cut + 1), rest.size()));
  }
  lines.push_back(rest);
  return lines;
}

} // namespace

void Grid::add(std::vector<std::string> cells, Tone tone) {
  cells.resize(columns_.size());
  tones_.push_back(tone);
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

// Where each column stands; its width is 0 where that is not beside the others.
struct Grid::Layout {
  size_t columns = 0; // of a line, 0 for any number
  std::vector<size_t> width;
  std::vector<size_t> headings, below; // columns by number
  size_t indent() const { return headings.empty() ? 0 : 2; }

  size_t total() const {
    size_t sum = 0;
    for (const size_t own : width) sum += own > 0 ? own + kGap : 0;
    return indent() + sum - std::min(sum, kGap);
  }
  bool fits() const { return columns == 0 || total() <= columns; }
};

Grid::Layout Grid::layout_for(size_t columns, std::vector<std::string> *left_out) const {
  Layout layout{columns, widths(), {}, {}};
  const auto take_out = [&](Fit fit, std::vector<size_t> *place) {
    for (size_t i = 0; i < columns_.size() && !layout.fits(); ++i) {
      if (columns_[i].fit != fit || layout.width[i] == 0) continue;
      for (size_t j = i; j < columns_.size(); ++j) // all of a kind together
        if (columns_[j].fit == fit && layout.width[j] > 0) place->push_back(j), layout.width[j] = 0;
    }
  };
  // Makes the widest of those that wrap narrower, but not below `least`, until all fit.
  const auto narrow = [&](size_t least) {
    while (!layout.fits()) {
      size_t widest = columns_.size();
      for (size_t i = 0; i < columns_.size(); ++i)
        if (columns_[i].fit == Fit::kWrap && layout.width[i] > least &&
            (widest == columns_.size() || layout.width[i] > layout.width[widest]))
          widest = i;
      if (widest == columns_.size()) return;
      const size_t excess = layout.total() - columns, own = layout.width[widest];
      layout.width[widest] = std::max(least, own - std::min(excess, own));
    }
  };
  take_out(Fit::kBelow, &layout.below);
  take_out(Fit::kHeading, &layout.headings);
  const std::vector<size_t> natural = layout.width;
  narrow(kWellWrapped);
  std::vector<size_t> dropped;
  while (!layout.fits()) {
    size_t least = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].fit == Fit::kDrop && layout.width[i] > 0 &&
          (least == columns_.size() || columns_[i].rank >= columns_[least].rank))
        least = i;
    if (least == columns_.size()) break;
    layout.width[least] = 0;
    dropped.push_back(least);
  }
  for (size_t i = 0; i < columns_.size(); ++i) // what was dropped may have left room
    if (columns_[i].fit == Fit::kWrap) layout.width[i] = natural[i];
  narrow(kLeastWrapped);
  std::sort(dropped.begin(), dropped.end());
  for (const size_t i : dropped)
    if (left_out) left_out->push_back(columns_[i].title);
  return layout;
}

void Grid::append_row(const Layout &layout, const std::vector<std::string> &row, Tone tone, std::string *text) const {
  std::vector<std::vector<std::string>> cells(row.size());
  size_t lines = 1;
  for (size_t i = 0; i < row.size(); ++i) {
    if (layout.width[i] == 0) continue;
    cells[i] = pieces(row[i], layout.width[i]);
    lines = std::max(lines, cells[i].size());
  }
  for (size_t line = 0; line < lines; ++line) {
    std::string out(layout.indent(), ' ');
    bool first = true;
    for (size_t i = 0; i < row.size(); ++i) {
      if (layout.width[i] == 0) continue;
      if (!first) out += std::string(kGap, ' ');
      out += padded(line < cells[i].size() ? cells[i][line] : "", layout.width[i], columns_[i].right);
      first = false;
    }
    *text += toned(out.substr(0, out.find_last_not_of(' ') + 1), tone) + "\n";
  }
  for (const size_t i : layout.below)
    for (const std::string &piece : pieces(row[i], std::max(layout.columns, kLeastWrapped + kDeep) - kDeep))
      if (!piece.empty()) *text += std::string(kDeep, ' ') + toned(piece, tone) + "\n";
}

std::string Grid::text() const {
  return text(0, nullptr);
}

std::string Grid::text(size_t columns, std::vector<std::string> *left_out, bool coloured) const {
  const Layout layout = layout_for(columns, left_out);
  std::string text;
  std::vector<std::string> titles;
  for (size_t i = 0; i < columns_.size(); ++i) titles.push_back(layout.width[i] > 0 ? columns_[i].title : "");
  append_row(layout, titles, coloured ? Tone::kStrong : Tone::kPlain, &text);
  for (size_t number = 0; number < rows_.size(); ++number) {
    const std::vector<std::string> &row = rows_[number];
    std::string heading;
    for (const size_t i : layout.headings)
      if (!row[i].empty()) heading += (heading.empty() ? "" : "  ") + row[i];
    for (const std::string &piece : pieces(heading, std::max(columns, kLeastWrapped)))
      if (!piece.empty()) text += piece + "\n";
    append_row(layout, row, coloured ? tones_[number] : Tone::kPlain, &text);
  }
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
