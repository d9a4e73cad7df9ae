// numbers.hpp - small whole numbers, which every sum holds exactly, for tests of rewritten layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace rewrite_test {

using Numbers = std::vector<double>;

inline double &number(Numbers &numbers, int64_t i) {
  return numbers.at(static_cast<size_t>(i));
}
inline double number(const Numbers &numbers, int64_t i) {
  return numbers.at(static_cast<size_t>(i));
}

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}
  int64_t pick(int64_t low, int64_t high) { return low + static_cast<int64_t>(random_() % (high - low + 1)); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  Numbers numbers(int64_t count) {
    Numbers all(static_cast<size_t>(count));
    for (double &v : all) v = static_cast<double>(pick(-3, 3));
    return all;
  }

 private:
  std::mt19937 random_;
};

} // namespace rewrite_test
