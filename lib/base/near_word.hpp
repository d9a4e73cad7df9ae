// near_word.hpp - "did you mean": which of the known words somebody meant who typed another. Needs nothing else, so
// that the library and the bench share it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace polyconv {

// Letters to insert, delete, replace or swap with their neighbour until `a` is `b` (optimal string alignment).
inline size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), next(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({last[j] + 1, next[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = last;
    last = next;
  }
  return last[b.size()];
}

// The known word that is nearest to `word`, or that `word` begins; "" where none is near enough to be meant.
inline std::string near_word(std::string_view word, const std::vector<std::string> &known) {
  constexpr size_t kLongest = 64; // nobody means a longer one
  if (word.size() < 2 || word.size() > kLongest) return "";
  std::string nearest;
  size_t fewest = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string &candidate : known) {
    const size_t edits = edits_between(word, candidate);
    if (edits < fewest && edits < candidate.size()) nearest = candidate, fewest = edits;
  }
  for (const std::string &candidate : known)
    if (nearest.empty() && word.size() >= 3 && candidate.compare(0, word.size(), word) == 0) nearest = candidate;
  return nearest;
}

// "; did you mean 'nhwc'?", to end a sentence with; "" where nothing is near.
inline std::string did_you_mean(std::string_view word, const std::vector<std::string> &known) {
  const std::string nearest = near_word(word, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

} // namespace polyconv
