// chart.hpp - line charts for people: plain SVG, no script, no font of our own. Needs nothing but the standard library;
// polyconv-bench and the example lenet draw with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// A picture from ready elements, which the title stands above.
std::string picture(int width, int height, const std::string &title, const std::string &elements);

__attribute__((format(printf, 1, 2))) std::string formatted(const char *format, ...);

} // namespace chart
