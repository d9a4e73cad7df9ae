// statistics.hpp - what is made of a list of samples.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace polyconv::bench {

// The value below which `fraction` of the samples lie, linear between neighbours; 0.5 is the median. Samples need
// not be sorted; at least one.
double percentile(std::vector<double> samples, double fraction);

double median(const std::vector<double> &samples);

struct Interval {
  double low, high;
};

// Where the median of what the samples are drawn from lies with a probability of at least 95 %, whatever its
// distribution: between two of the sorted samples, by how many of n tosses of a coin show heads. Below 6 samples no
// two of them are that sure, and it is from the least to the largest.
Interval median_interval(std::vector<double> samples);

// The geometric mean of positive values; at least one.
double geometric_mean(const std::vector<double> &values);

} // namespace polyconv::bench
