// picture.cpp - SVG of a report's pictures.
// SPDX-License-Identifier: Apache-2.0
#include "page/picture.hpp"

#include <algorithm>
#include <cmath>

#include "chart/chart.hpp"
#include "page/assets.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

using chart::escaped;

void Picture::text(double x, double y, const char *anchor, const std::string &words, const char *style) {
  above_ += format("<text x=\"%.1f\" y=\"%.1f\"", x, y);
  if (std::string(anchor) != "start") above_ += format(" text-anchor=\"%s\"", anchor);
  if (*style != '\0') above_ += format(" class=\"%s\"", style);
  above_ += ">" + escaped(words) + "</text>\n";
}

void Picture::path(const std::string &data, const char *style) {
  if (!data.empty()) below_ += format("<path class=\"%s\" d=\"", style) + data + "\"/>\n";
}

void Picture::line(double x1, double y1, double x2, double y2, const char *style) {
  path(format("M%.1f %.1fL%.1f %.1f", x1, y1, x2, y2), style);
}

void Picture::point(double x, double y, size_t colour, size_t row) {
  marks_.push_back({colour, row, format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"", x, y), ""});
}

void Picture::bar(double x, double y, double width, double height, size_t colour, size_t row) {
  marks_.push_back(
      {colour, row,
       format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", x, y, std::max(width, 1.0), height), ""});
}

void Picture::cell(double x, double y, double width, double height, const char *fill, const char *letters,
                   const std::string &words, size_t row) {
  marks_.push_back(
      {kColours, row,
       format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"", x, y, width, height, fill),
       format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" style=\"fill:%s\" class=\"in\">", x + width / 2,
              y + height / 2 + 4, letters) +
           escaped(words) + "</text>"});
}

// Kernels' names have many of the widest letters, wgmma for one.
double key_width(const std::string &name) {
  return 15 + 1.2 * kLetter * static_cast<double>(name.size()) + 14;
}

double Picture::key(double x, double y, size_t colour, const std::string &name) {
  below_ += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" class=\"k%zu\"/>\n", x, y - 9, colour);
  text(x + 15, y, "start", name);
  return x + key_width(name);
}

// In groups of one colour, which is written once; the order within it stays.
std::string Picture::marks(const std::vector<std::string> *words) const {
  std::string all;
  for (size_t colour = 0; colour <= kColours; ++colour) {
    std::string group;
    for (const Mark &mark : marks_) {
      if (mark.colour != colour) continue;
      group += mark.shape;
      if (words)
        group += "><title>" + escaped(words->at(mark.row)) +
                 (mark.shape[1] == 'c' ? "</title></circle>" : "</title></rect>");
      else
        group += format(" data-r=\"%zu\"/>", mark.row);
      group += mark.behind + "\n";
    }
    if (group.empty()) continue;
    all += colour == kColours ? "<g>\n" : format("<g class=\"k%zu\">\n", colour);
    all += group + "</g>\n";
  }
  return all;
}

std::string Picture::inline_svg(const std::string &label) const {
  return format("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", width_, height_) + escaped(label) +
         "\">\n" + below_ + marks(nullptr) + above_ + "</svg>\n";
}

std::string Picture::file(const std::string &title, const std::vector<std::string> &words) const {
  constexpr double kTitle = 28;
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 %.0f %.0f %.0f\">\n",
             width_, height_ + kTitle, -kTitle, width_, height_ + kTitle) +
         "<style>" + kPictureStyle + "</style>\n" +
         format("<rect x=\"0\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", -kTitle, width_,
                height_ + kTitle) +
         "<text x=\"10\" y=\"-10\" class=\"strong\">" + escaped(title) + "</text>\n" + below_ + marks(&words) + above_ +
         "</svg>\n";
}

std::string shortened(const std::string &text, double pixels) {
  const auto most = static_cast<size_t>(std::max(3.0, pixels / kLetter));
  if (text.size() <= most) return text;
  size_t front = (most - 1) / 2, back = text.size() - (most - 1 - front);
  const auto within = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; }; // a character
  while (front > 0 && within(front)) --front;
  while (back < text.size() && within(back)) ++back;
  return text.substr(0, front) + "…" + text.substr(back);
}

LogAxis::LogAxis(double low, double high, double begin, double length)
    : low_(std::log10(low)), high_(std::log10(high)), begin_(begin), length_(length) {
  const double margin = std::max(0.04 * (high_ - low_), 0.02);
  low_ -= margin, high_ += margin;
}

double LogAxis::at(double value) const {
  return begin_ + length_ * (std::log10(value) - low_) / (high_ - low_);
}

std::vector<double> LogAxis::ticks(size_t most) const {
  const auto ticks_of = [&](const std::vector<double> &digits, double step) {
    std::vector<double> ticks;
    for (double power = std::floor(low_); power <= high_; power += step)
      for (const double digit : digits) {
        const double tick = digit * std::pow(10, power);
        if (std::log10(tick) >= low_ && std::log10(tick) <= high_) ticks.push_back(tick);
      }
    return ticks;
  };
  for (const std::vector<double> &digits :
       {std::vector<double>{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9}, {1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}}) {
    std::vector<double> ticks = ticks_of(digits, 1);
    if (ticks.size() <= most) return ticks;
  }
  for (double step = 2;; ++step) {
    std::vector<double> ticks = ticks_of({1}, step);
    if (ticks.size() <= std::max<size_t>(most, 1)) return ticks;
  }
}

std::string tick_label(double value) {
  if (value >= 1e15 || value < 1e-3) return format("%.0e", value);
  for (const auto &[unit, letter] : {std::pair<double, const char *>{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (value >= unit) return format("%.3g%s", value / unit, letter);
  return format("%.3g", value);
}

} // namespace polyconv::bench
