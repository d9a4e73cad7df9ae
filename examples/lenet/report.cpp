// report.cpp - see report.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace lenet {
namespace {

__attribute__((format(printf, 1, 2))) std::string formatted(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

std::string picture(int width, int height, const std::string &title, const std::string &body) {
  return formatted(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
             width, height) +
         "<text x=\"20\" y=\"22\" font-size=\"15\">" + escaped(title) + "</text>\n" + body + "</svg>\n";
}

// One panel of the learning curve: values in [low, high] over the epochs.
struct Panel {
  double left, low, high;
  size_t epochs;
  static constexpr double kTop = 50, kWidth = 300, kHeight = 220;

  double x(size_t epoch) const {
    return left + kWidth * static_cast<double>(epoch) / static_cast<double>(std::max<size_t>(epochs - 1, 1));
  }
  double y(double value) const { return kTop + kHeight * (high - value) / (high - low); }

  std::string frame(const char *label) const {
    std::string text = formatted("<text x=\"%g\" y=\"42\">%s</text>\n", left, label);
    for (int i = 0; i <= 4; ++i) {
      const double value = low + (high - low) * i / 4;
      text +=
          formatted("<path d=\"M%g %gh%g\" stroke=\"#ddd\"/><text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.3g</text>\n",
                    left, y(value), kWidth, left - 6, y(value) + 4, value);
    }
    const size_t step = std::max<size_t>(1, epochs / 10);
    for (size_t epoch = 0; epoch < epochs; epoch += step)
      text += formatted("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%zu</text>\n", x(epoch), kTop + kHeight + 18,
                        epoch + 1);
    return text;
  }

  std::string line(const std::vector<double> &values, const char *colour, const char *name, int row) const {
    std::string text = "<path fill=\"none\" stroke-width=\"2\" stroke=\"" + std::string(colour) + "\" d=\"";
    for (size_t i = 0; i < values.size(); ++i) text += formatted("%c%.1f %.1f", i == 0 ? 'M' : 'L', x(i), y(values[i]));
    text += "\"/>\n";
    for (size_t i = 0; i < values.size(); ++i) // a dot an epoch, so that one alone shows too
      text += formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>", x(i), y(values[i]), colour);
    return text + formatted("\n<text x=\"%g\" y=\"%g\" fill=\"%s\">%s %.4f</text>\n", left + 8,
                            kTop + kHeight - 8 - 16.0 * row, colour, name, values.back());
  }
};

template <class Member>
std::vector<double> column(const std::vector<Epoch> &history, Member member) {
  std::vector<double> values;
  values.reserve(history.size());
  for (const Epoch &epoch : history) values.push_back(epoch.*member);
  return values;
}

} // namespace

std::string learning_curve(const std::string &title, const std::vector<Epoch> &history) {
  if (history.empty()) return picture(760, 310, title, "");
  const auto losses = column(history, &Epoch::loss), test = column(history, &Epoch::accuracy);
  const auto training = column(history, &Epoch::training_accuracy);
  const double most = *std::max_element(losses.begin(), losses.end());
  const double least =
      std::min(*std::min_element(test.begin(), test.end()), *std::min_element(training.begin(), training.end()));
  const Panel loss = {60, 0, most > 0 ? most * 1.05 : 1, history.size()};
  const Panel accuracy = {440, std::max(0.0, least - 0.02), 1, history.size()};
  return picture(760, 310, title,
                 loss.frame("loss over epochs") + loss.line(losses, "#c0392b", "training", 0) +
                     accuracy.frame("accuracy over epochs") + accuracy.line(training, "#7f8c8d", "training", 1) +
                     accuracy.line(test, "#2471a3", "test", 0));
}

std::string confusion_matrix(const std::string &title, const std::vector<uint8_t> &labels,
                             const std::vector<uint8_t> &guesses, int64_t classes) {
  constexpr int kCell = 44, kLeft = 60, kTop = 70;
  const auto n = static_cast<size_t>(classes);
  std::vector<int> counts(n * n, 0), totals(n, 0);
  for (size_t i = 0; i < labels.size(); ++i) {
    ++counts[labels[i] * n + guesses[i]];
    ++totals[labels[i]];
  }
  std::string body =
      formatted("<text x=\"%d\" y=\"44\">taken for</text>\n<text x=\"14\" y=\"%d\">is</text>\n", kLeft, kTop + 26);
  for (size_t row = 0; row < n; ++row) {
    const int y = kTop + kCell * static_cast<int>(row);
    body += formatted("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%zu</text>\n", kLeft - 8, y + 26, row);
    body += formatted("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%zu</text>\n",
                      kLeft + kCell * static_cast<int>(row) + kCell / 2, kTop - 8, row);
    for (size_t column = 0; column < n; ++column) {
      const int count = counts[row * n + column];
      const double part = totals[row] > 0 ? static_cast<double>(count) / totals[row] : 0;
      const int x = kLeft + kCell * static_cast<int>(column),
                dark = static_cast<int>(255 - 200 * std::min(1.0, part * (row == column ? 1 : 4)));
      body += formatted(
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"white\"/>", x, y, kCell, kCell,
          (row == column ? formatted("rgb(%d,%d,255)", dark, dark) : formatted("rgb(255,%d,%d)", dark, dark)).c_str());
      body += formatted("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x + kCell / 2, y + 26, count);
    }
  }
  const int side = kCell * static_cast<int>(n);
  return picture(kLeft + side + 20, kTop + side + 20, title, body);
}

} // namespace lenet
