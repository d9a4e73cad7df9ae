// clouds.cpp - points in a plane with logarithmic axes, under what bounds them: rooflines. See chart.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "chart/chart.hpp"

namespace chart {
namespace {

constexpr double kLeft = 70, kTop = 50, kWidth = 620, kHeight = 380, kRow = 16;

// An axis over whole decades that hold all values.
struct Axis {
  double low, high; // powers of ten
  double begin, length;

  double place(double value) const { return begin + length * (std::log10(value) - low) / (high - low); }
};

Axis axis_of(const std::vector<double> &values, double begin, double length) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double low = std::floor(std::log10(*least)), high = std::ceil(std::log10(*most));
  return {low, std::max(high, low + 1), begin, length};
}

class Plane {
 public:
  Plane(const Axis &x, const Axis &y) : x_(x), y_(y) {}

  std::string frame(const std::string &x_axis, const std::string &y_axis) const {
    std::string text;
    for (double power = x_.low; power <= x_.high; ++power)
      text += formatted(
          "<path d=\"M%.1f %gv%g\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%s</text>\n",
          x_.place(std::pow(10, power)), kTop, kHeight, x_.place(std::pow(10, power)), kTop + kHeight + 16,
          label(std::pow(10, power)).c_str());
    for (double power = y_.low; power <= y_.high; ++power)
      text += formatted(
          "<path d=\"M%g %.1fh%g\" stroke=\"#ddd\"/><text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft,
          y_.place(std::pow(10, power)), kWidth, kLeft - 6, y_.place(std::pow(10, power)) + 4,
          label(std::pow(10, power)).c_str());
    return text + formatted("<text x=\"%g\" y=\"42\">", kLeft) + escaped(y_axis) + " over " + escaped(x_axis) +
           "</text>\n";
  }

  // The bound within the frame: it rises until it meets the level, and goes on at it.
  std::string bound(const Cloud &cloud, const char *colour) const {
    if (cloud.slope <= 0) return "";
    const double left = std::pow(10, x_.low), right = std::pow(10, x_.high), bottom = std::pow(10, y_.low),
                 top = cloud.level > 0 ? cloud.level : std::pow(10, y_.high);
    const double from = std::max(left, bottom / cloud.slope), to = std::min(right, top / cloud.slope);
    std::string path;
    if (from < to)
      path = formatted("M%.1f %.1fL%.1f %.1f", x_.place(from), y_.place(cloud.slope * from), x_.place(to),
                       y_.place(cloud.slope * to));
    if (cloud.level > 0 && to < right)
      path += formatted("M%.1f %.1fH%.1f", x_.place(std::max(to, left)), y_.place(cloud.level), x_.place(right));
    return "<path fill=\"none\" stroke=\"" + std::string(colour) + "\" d=\"" + path + "\"/>\n";
  }

  std::string points(const Cloud &cloud, const char *colour) const {
    std::string text;
    for (const Cloud::Point &p : cloud.points)
      text += formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\" fill-opacity=\"0.6\"><title>",
                        x_.place(p.x), y_.place(p.y), colour) +
              escaped(p.words) + "</title></circle>\n";
    return text;
  }

 private:
  const Axis x_, y_;
};

} // namespace

std::string clouds(const std::string &title, const std::string &x_axis, const std::string &y_axis,
                   const std::vector<Cloud> &clouds) {
  std::vector<double> across, up;
  for (const Cloud &cloud : clouds) {
    for (const Cloud::Point &p : cloud.points) across.push_back(p.x), up.push_back(p.y);
    if (cloud.level > 0) up.push_back(cloud.level);
  }
  if (across.empty()) across = up = {1};
  const Plane plane(axis_of(across, kLeft, kWidth), axis_of(up, kTop + kHeight, -kHeight));
  std::string body = plane.frame(x_axis, y_axis);
  for (size_t i = 0; i < clouds.size(); ++i) {
    body += plane.bound(clouds[i], colour_of(i)) + plane.points(clouds[i], colour_of(i));
    body += formatted("<text x=\"%g\" y=\"%g\" fill=\"%s\">", kLeft,
                      kTop + kHeight + 40 + kRow * static_cast<double>(i), colour_of(i)) +
            escaped(clouds[i].name) +
            formatted(", %zu %s</text>\n", clouds[i].points.size(), clouds[i].points.size() == 1 ? "row" : "rows");
  }
  return picture(static_cast<int>(kLeft + kWidth + 30),
                 static_cast<int>(kTop + kHeight + 40 + kRow * static_cast<double>(clouds.size())), title, body);
}

} // namespace chart
