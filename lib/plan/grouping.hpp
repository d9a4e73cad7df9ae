// grouping.hpp - options.grouping: which neighbouring layers of a chain one kernel takes, where a caller says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polyconv {

class WantedGroups {
 public:
  // Reads "none", "3" or "2+2" for a chain of `count` layers; "" wants nothing. Throws Failure(INVALID_ARGUMENT).
  WantedGroups(const std::string &grouping, int32_t count);

  // Whether layers [first, first + count) may be a group.
  bool admit(int32_t first, int32_t count) const;

 private:
  std::vector<int32_t> ends_; // ends_[first] of a group that begins there, 0 where none does; empty where all may be
};

} // namespace polyconv
