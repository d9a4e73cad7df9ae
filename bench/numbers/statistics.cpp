// statistics.cpp - what is made of a list of samples.
// SPDX-License-Identifier: Apache-2.0
#include "numbers/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace polyconv::bench {

double percentile(std::vector<double> samples, double fraction) {
  if (samples.empty()) throw std::invalid_argument("a percentile of no samples");
  std::sort(samples.begin(), samples.end());
  const double position = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(samples.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (position - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double median(const std::vector<double> &samples) {
  return percentile(samples, 0.5);
}

double geometric_mean(const std::vector<double> &values) {
  if (values.empty()) throw std::invalid_argument("a geometric mean of no values");
  double sum = 0;
  for (double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

} // namespace polyconv::bench
