// picture.hpp - one picture of a report, as SVG that takes its colours from the page around it (light, dark, print), or
// as a file of its own. Drawn anew for each width, so that letters keep their size on a phone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace polyconv::bench {

constexpr double kLetter = 7.2; // no letter of 13 pixels in a system's font is wider on average
constexpr size_t kColours = 8;

double key_width(const std::string &name); // of a key's square, its name and the space behind it

class Picture {
 public:
  Picture(double width, double height) : width_(width), height_(height) {}

  double width() const { return width_; }
  double height() const { return height_; }

  // `anchor` is "start", "middle" or "end"; `style` a class of page.css ("", "dim", "strong").
  void text(double x, double y, const char *anchor, const std::string &words, const char *style = "");
  // A path of the class "grid", "bound", "one" or "noise".
  void path(const std::string &data, const char *style);
  void line(double x1, double y1, double x2, double y2, const char *style);
  // What belongs to a row of the table: a point, or a bar, in the colour of a series.
  void point(double x, double y, size_t colour, size_t row);
  void bar(double x, double y, double width, double height, size_t colour, size_t row);
  // A cell of a heat map: its own fill and colour of letters, the same in light and dark.
  void cell(double x, double y, double width, double height, const char *fill, const char *letters,
            const std::string &words, size_t row);
  // A square of the series' colour and its name; the place behind it.
  double key(double x, double y, size_t colour, const std::string &name);

  // For the page. `label` says what it shows to those who do not see it.
  std::string inline_svg(const std::string &label) const;
  // A file: light, with the words of each row, which the page shows by its script.
  std::string file(const std::string &title, const std::vector<std::string> &words) const;

 private:
  struct Mark {
    size_t colour, row;
    std::string shape; // without its end: "<circle cx=\"1\" ..."
    std::string behind;
  };
  std::string marks(const std::vector<std::string> *words) const;

  double width_, height_;
  std::string below_, above_; // lines under the marks, letters over them
  std::vector<Mark> marks_;
};

// The text with an ellipsis in its middle where it has more letters than so many pixels hold.
std::string shortened(const std::string &text, double pixels);

// A logarithmic axis over the values, from `begin` over `length` pixels (negative: upwards). Ticks at powers of ten, or
// at 1, 2 and 5 of each where there are few.
class LogAxis {
 public:
  LogAxis(double low, double high, double begin, double length);
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  std::vector<double> ticks(size_t most) const;

 private:
  double low_, high_, begin_, length_;
};

// "0.25", "1.2k", "3M": a number beside a tick.
std::string tick_label(double value);

} // namespace polyconv::bench
