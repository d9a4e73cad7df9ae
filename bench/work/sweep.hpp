// sweep.hpp - comma lists, a:b:step, and their use on the numeric fields of a problem token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace polyconv::bench {

// "1,2,8:32:8" -> 1 2 8 16 24 32. An item is a value of a token field as it is ("3x3", "1/2"), or begin:end:step
// (both ends included, step above 0). Error(kUsage) naming `what`.
std::vector<std::string> parse_values(const std::string &list, const std::string &what);

// The same where every value must be a whole number of at least `least`.
std::vector<long long> parse_numbers(const std::string &list, const std::string &what, long long least);

// One `--set c=16:64:16`, or `c=k=g=32,64` where several fields take the same value at once. Of a chain it concerns the
// first layer, or with `2.k=8,16` another.
struct Sweep {
  size_t layer = 0;
  std::vector<std::string> fields;
  std::vector<std::string> values;
};
Sweep parse_sweep(const std::string &text);

// The token with field `name` of its dimensions ("n", "c", "i" ...) set: replaced, or added where absent. One
// number for i stands for every axis that the token has, as it does for the other fields by the token's own rules.
std::string set_field(const std::string &token, const std::string &name, const std::string &value);

} // namespace polyconv::bench
