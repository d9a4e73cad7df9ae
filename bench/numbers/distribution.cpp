// distribution.cpp - what the ratios of many layers say together.
// SPDX-License-Identifier: Apache-2.0
#include "numbers/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "numbers/statistics.hpp"

namespace polyconv::bench {

bool are_times(const LayerTimes &times) {
  const double values[] = {times.own_us, times.baseline_us, times.ratio};
  return std::all_of(std::begin(values), std::end(values),
                     [](double value) { return std::isfinite(value) && value > 0; });
}

void Distribution::add(LayerTimes times) {
  if (!are_times(times)) throw std::invalid_argument(times.token + " has no times");
  layers_.push_back(std::move(times));
}

double Distribution::geometric_mean() const {
  std::vector<double> ratios;
  ratios.reserve(layers_.size());
  for (const LayerTimes &layer : layers_) ratios.push_back(layer.ratio);
  return bench::geometric_mean(ratios);
}

size_t Distribution::count_below(double ratio) const {
  refuse_none();
  return static_cast<size_t>(
      std::count_if(layers_.begin(), layers_.end(), [&](const LayerTimes &layer) { return layer.ratio < ratio; }));
}

double Distribution::share_below(double ratio) const {
  return static_cast<double>(count_below(ratio)) / static_cast<double>(layers_.size());
}

double Distribution::sum_ratio() const {
  refuse_none();
  double own = 0, baseline = 0;
  for (const LayerTimes &layer : layers_) own += layer.own_us, baseline += layer.baseline_us;
  return baseline / own;
}

std::vector<LayerTimes> Distribution::by_ratio() const {
  refuse_none();
  std::vector<LayerTimes> sorted = layers_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LayerTimes &a, const LayerTimes &b) { return a.ratio < b.ratio; });
  return sorted;
}

void Distribution::refuse_none() const {
  if (layers_.empty()) throw std::invalid_argument("a distribution of no layers");
}

} // namespace polyconv::bench
