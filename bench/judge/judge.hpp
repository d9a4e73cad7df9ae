// judge.hpp - results beside a file of bars: which are held, which are not, and which cannot be told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "judge/expect.hpp"
#include "result/record.hpp"

namespace polyconv::bench {

enum class Verdict {
  kHeld,      // told of the bars of suites: what was measured
  kNotHeld,   // a bar, or a layer that is lost to it
  kIncomplete // what is measured would hold the bar, but layers are lost, each of which is not held
};

struct Finding {
  Verdict verdict;
  std::string sentence; // begins with the row's "file:line: "
};

// What there is to say about every row, in the order of the file. A row is held where nothing about it is kNotHeld.
std::vector<Finding> judge_expectations(const std::vector<Expectation> &expectations,
                                        const std::vector<Record> &records);

// The sentences of what is not held; none when all bars are.
std::vector<std::string> broken_expectations(const std::vector<Expectation> &expectations,
                                             const std::vector<Record> &records);

} // namespace polyconv::bench
