// grouping.cpp - the words of options.grouping.
// SPDX-License-Identifier: Apache-2.0
#include "plan/grouping.hpp"

#include "base/status.hpp"

#include <algorithm>
#include <cstddef>

namespace polyconv {
namespace {

// "2+2" -> 2 2; empty where it is no such list of whole numbers from 1 to 99.
std::vector<int32_t> sizes_in(const std::string &text) {
  std::vector<int32_t> sizes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    if (end - begin > 2) return {};
    int32_t size = 0;
    for (size_t i = begin; i < end; ++i) {
      if (text[i] < '0' || text[i] > '9') return {};
      size = size * 10 + (text[i] - '0');
    }
    if (size < 1) return {};
    sizes.push_back(size);
    begin = end + 1;
  }
  return sizes;
}

} // namespace

WantedGroups::WantedGroups(const std::string &grouping, int32_t count) {
  if (grouping.empty()) return;
  std::vector<int32_t> sizes = grouping == "none" ? std::vector<int32_t>{1} : sizes_in(grouping);
  if (sizes.empty())
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "options.grouping is '%s', expected \"none\", a number of layers such as \"3\", or the size of every "
                  "group such as \"2+2\"",
                  grouping.c_str());
  int32_t sum = 0;
  for (const int32_t size : sizes) sum += size;
  if (sizes.size() > 1 && sum != count)
    throw failure(POLYCONV_INVALID_ARGUMENT, "options.grouping is '%s', %d layers in all, expected %d as in this chain",
                  grouping.c_str(), static_cast<int>(sum), static_cast<int>(count));
  ends_.resize(static_cast<size_t>(count));
  int32_t first = 0;
  for (size_t group = 0; first < count; ++group) {
    const int32_t size = sizes[std::min(group, sizes.size() - 1)];
    ends_[static_cast<size_t>(first)] = std::min(first + size, count);
    first += size;
  }
}

bool WantedGroups::admit(int32_t first, int32_t count) const {
  return ends_.empty() || ends_[static_cast<size_t>(first)] == first + count;
}

} // namespace polyconv
