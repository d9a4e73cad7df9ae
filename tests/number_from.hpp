// number_from.hpp - numbers that the environment gives a test: how much of its work it is to do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>

namespace polyconv_test {

inline int number_from(const char *variable, int otherwise) {
  const char *value = std::getenv(variable);
  return value == nullptr ? otherwise : std::atoi(value);
}

// One case in how many: 1 where the variable says nothing.
inline int cut_from(const char *variable) {
  return std::max(number_from(variable, 1), 1);
}

} // namespace polyconv_test
