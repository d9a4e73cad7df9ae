// distribution.hpp - what the ratios of many layers say together: their mean, how many fall behind, the least of them,
// and what all the time comes to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace polyconv::bench {

// One layer beside its baseline, in microseconds; `ratio` is that of the record, the median over the rounds.
struct LayerTimes {
  std::string token, kernel;
  double own_us, baseline_us, ratio;
};

// Whether all three are finite and above 0. One that is not would make every mean and sum NaN, 0 or infinite.
bool are_times(const LayerTimes &times);

// Every question throws std::invalid_argument while there is no layer: a mean of nothing holds no bar.
class Distribution {
 public:
  void add(LayerTimes times); // std::invalid_argument where they are no times

  size_t size() const { return layers_.size(); }
  double geometric_mean() const;
  size_t count_below(double ratio) const;
  double share_below(double ratio) const; // 0 to 1
  double sum_ratio() const;               // the baseline's times together over ours
  // The layers, that with the least ratio first.
  std::vector<LayerTimes> by_ratio() const;

 private:
  void refuse_none() const;

  std::vector<LayerTimes> layers_;
};

} // namespace polyconv::bench
