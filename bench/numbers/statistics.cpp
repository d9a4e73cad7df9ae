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

Interval median_interval(std::vector<double> samples) {
  if (samples.empty()) throw std::invalid_argument("an interval of no samples");
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  // The median lies below the k-th sample (from 0) when at most k of n tosses show heads: go inwards while that has
  // less than 2.5 %. Logarithms, because 2^-n is 0 from some n on.
  size_t k = 0;
  double sum = 0;
  for (size_t heads = 0; heads < samples.size() / 2; ++heads) {
    const auto h = static_cast<double>(heads);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(h + 1) - std::lgamma(n - h + 1) - n * std::log(2.0));
    if (sum > 0.025) break;
    k = heads;
  }
  return {samples[k], samples[samples.size() - 1 - k]};
}

double geometric_mean(const std::vector<double> &values) {
  if (values.empty()) throw std::invalid_argument("a geometric mean of no values");
  double sum = 0;
  for (double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

} // namespace polyconv::bench
