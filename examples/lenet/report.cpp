// report.cpp - see report.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>

#include "chart/chart.hpp"

namespace lenet {
namespace {

using chart::formatted;

template <class Member>
std::vector<double> column(const std::vector<Epoch> &history, Member member) {
  std::vector<double> values;
  values.reserve(history.size());
  for (const Epoch &epoch : history) values.push_back(epoch.*member);
  return values;
}

} // namespace

std::string learning_curve(const std::string &title, const std::vector<Epoch> &history) {
  if (history.empty()) return chart::picture(760, 310, title, "");
  const auto losses = column(history, &Epoch::loss), test = column(history, &Epoch::accuracy);
  const auto training = column(history, &Epoch::training_accuracy);
  const double most = *std::max_element(losses.begin(), losses.end());
  const double least =
      std::min(*std::min_element(test.begin(), test.end()), *std::min_element(training.begin(), training.end()));
  std::vector<std::string> epochs;
  for (size_t i = 0; i < history.size(); ++i) epochs.push_back(std::to_string(i + 1));
  return chart::lines(
      title, {{"loss over epochs", epochs, {{"training", "#c0392b", losses}}, 0, most > 0 ? most * 1.05 : 1, true},
              {"accuracy over epochs",
               epochs,
               {{"test", "#2471a3", test}, {"training", "#7f8c8d", training}},
               std::max(0.0, least - 0.02),
               1,
               true}});
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
  return chart::picture(kLeft + side + 20, kTop + side + 20, title, body);
}

} // namespace lenet
