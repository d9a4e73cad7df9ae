// chart.hpp - charts for people: plain SVG, no script, no font of our own. Needs nothing but the standard library;
// polyconv-bench and the example lenet draw with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/printf.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace chart {

struct Series {
  std::string name;
  std::string colour;         // "#c0392b"; empty: by its place
  std::vector<double> values; // one for each label; NaN where there is none
};

// Values over labels that stand at equal distances.
struct Panel {
  std::string title;
  std::vector<std::string> labels;
  std::vector<Series> series;
  double low = 0, high = 1;
  bool last_values = false; // beside each series' name
};

// The panels side by side under a title.
std::string lines(const std::string &title, const std::vector<Panel> &panels);

// Points in a plane whose axes are logarithmic, with what bounds them from above.
struct Cloud {
  struct Point {
    double x, y;
    std::string words; // what a reader sees who points at it
  };
  std::string name;
  std::vector<Point> points;
  double slope = 0; // the bound is the smaller of slope * x and `level`; 0: no such bound
  double level = 0;
};

// Every coordinate must be above 0. `x_axis` and `y_axis` say what they are.
std::string clouds(const std::string &title, const std::string &x_axis, const std::string &y_axis,
                   const std::vector<Cloud> &clouds);

// The colour of a series, or of a cloud, by its place.
const char *colour_of(size_t place);

// A number on an axis: "0.25", "1.2k", "139k".
std::string label(double value);

// Text as an element of the picture may hold it, or an attribute in double quotes.
std::string escaped(const std::string &text);

// A picture from ready elements, which the title stands above.
std::string picture(int width, int height, const std::string &title, const std::string &elements);

POLYCONV_PRINTF(1, 2) std::string formatted(const char *format, ...);

} // namespace chart
