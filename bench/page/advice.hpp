// advice.hpp - which layers one should look at first, and why.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "page/row.hpp"

namespace polyconv::bench {

struct Advice {
  size_t row;
  std::string title, problem, where; // "f32 on cpu, threads/dense@avx512"
  std::string why;                   // "0.62 of onednn: 3.1 ms instead of 1.9 ms"
  double lost_us = 0;                // with all occurrences; 0 where it cannot be told
  double share = 0;                  // of the time of all rows, 0 to 1
};

struct Priorities {
  std::string order;          // by what the list is sorted, as a sentence
  std::vector<Advice> advice; // the most important first: all of them
};

// Wrong and failed rows first. Then, by the time that they would win, rows that lose to their baseline; without any
// baseline rows by the time that they spend above their roof; without roofs by their time alone.
Priorities advise(const std::vector<Row> &rows);

} // namespace polyconv::bench
