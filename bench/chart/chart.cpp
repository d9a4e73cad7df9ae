// chart.cpp - see chart.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "chart/chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace chart {
namespace {

constexpr double kTop = 50, kHeight = 220, kMargin = 60, kGap = 80, kRow = 16, kLetter = 7;

double longest_label(const Panel &panel) {
  size_t letters = 0;
  for (const std::string &label : panel.labels) letters = std::max(letters, label.size());
  return kLetter * static_cast<double>(letters);
}

// Whether labels side by side would run into each other.
bool tilts(const Panel &panel, double width) {
  return longest_label(panel) * static_cast<double>(std::min<size_t>(panel.labels.size(), 10)) > width;
}

// What tilted labels take below more than others.
double label_depth(const Panel &panel, double width) {
  return tilts(panel, width) ? longest_label(panel) / 2 : 0;
}

// One panel whose frame begins at `left`.
class Drawing {
 public:
  Drawing(const Panel &panel, double left, double width) : panel_(panel), left_(left), width_(width) {}

  std::string text() const {
    std::string text = frame();
    for (size_t i = 0; i < panel_.series.size(); ++i) text += line(panel_.series[i], i);
    return text;
  }

 private:
  double x(size_t place) const {
    const size_t most = std::max<size_t>(panel_.labels.size(), 2) - 1;
    return left_ + width_ * static_cast<double>(place) / static_cast<double>(most);
  }
  double y(double value) const { return kTop + kHeight * (panel_.high - value) / (panel_.high - panel_.low); }

  std::string frame() const {
    std::string text = formatted("<text x=\"%g\" y=\"42\">", left_) + escaped(panel_.title) + "</text>\n";
    for (int i = 0; i <= 4; ++i) {
      const double value = panel_.low + (panel_.high - panel_.low) * i / 4;
      text +=
          formatted("<path d=\"M%g %gh%g\" stroke=\"#ddd\"/><text x=\"%g\" y=\"%g\" text-anchor=\"end\">%s</text>\n",
                    left_, y(value), width_, left_ - 6, y(value) + 4, label(value).c_str());
    }
    const size_t step = std::max<size_t>(1, panel_.labels.size() / 10);
    const double tilt = tilts(panel_, width_) ? -30 : 0, below = kTop + kHeight + 18;
    for (size_t i = 0; i < panel_.labels.size(); i += step)
      text += formatted("<text x=\"%g\" y=\"%g\" text-anchor=\"%s\" transform=\"rotate(%g %g %g)\">", x(i), below,
                        tilt < 0 ? "end" : "middle", tilt, x(i), below) +
              escaped(panel_.labels[i]) + "</text>\n";
    return text;
  }

  std::string line(const Series &series, size_t row) const {
    const std::string colour = series.colour.empty() ? colour_of(row) : series.colour;
    std::string path, dots;
    bool drawing = false; // a gap begins a new line
    for (size_t i = 0; i < series.values.size(); ++i) {
      const double value = series.values[i];
      if (std::isfinite(value)) {
        path += formatted("%c%.1f %.1f", drawing ? 'L' : 'M', x(i), y(value));
        dots += formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>", x(i), y(value), colour.c_str());
      }
      drawing = std::isfinite(value);
    }
    std::string name = escaped(series.name);
    if (panel_.last_values && !series.values.empty()) name += formatted(" %.4f", series.values.back());
    return "<path fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\" d=\"" + path + "\"/>\n" + dots +
           formatted("\n<text x=\"%g\" y=\"%g\" fill=\"%s\">", left_,
                     kTop + kHeight + 40 + label_depth(panel_, width_) + kRow * static_cast<double>(row),
                     colour.c_str()) +
           name + "</text>\n";
  }

  const Panel &panel_;
  const double left_, width_;
};

} // namespace

const char *colour_of(size_t place) {
  constexpr const char *kColours[] = {"#2471a3", "#c0392b", "#1e8449", "#b9770e", "#7d3c98", "#7f8c8d"};
  return kColours[place % (sizeof kColours / sizeof *kColours)];
}

std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return result;
}

std::string label(double value) {
  if (std::fabs(value) >= 1e6) return formatted("%.3gM", value * 1e-6);
  return std::fabs(value) >= 1e3 ? formatted("%.3gk", value * 1e-3) : formatted("%.3g", value);
}

std::string formatted(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::string picture(int width, int height, const std::string &title, const std::string &elements) {
  return formatted(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
             width, height) +
         "<text x=\"20\" y=\"22\" font-size=\"15\">" + escaped(title) + "</text>\n" + elements + "</svg>\n";
}

std::string lines(const std::string &title, const std::vector<Panel> &panels) {
  std::string body;
  size_t rows = 0;
  const double width = panels.size() > 1 ? 300 : 560;
  double left = kMargin, depth = 0;
  if (!panels.empty() && tilts(panels.front(), width)) left += longest_label(panels.front()) * 0.6;
  for (const Panel &panel : panels) {
    body += Drawing(panel, left, width).text();
    rows = std::max(rows, panel.series.size());
    depth = std::max(depth, label_depth(panel, width));
    left += width + kGap;
  }
  const double height = kTop + kHeight + 40 + depth + kRow * static_cast<double>(rows);
  return picture(static_cast<int>(left), static_cast<int>(height), title, body);
}

} // namespace chart
