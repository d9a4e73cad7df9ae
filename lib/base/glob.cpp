// glob.cpp - the patterns of options.kernel and POLYCONV_KERNEL: several globs with '*' and '?', separated by commas.
// SPDX-License-Identifier: Apache-2.0
#include "base/glob.hpp"

#include <string_view>

namespace polyconv {
namespace {

// One glob against one name. After a mismatch only the last '*' can still be widened, so this is never exponential.
bool match(std::string_view glob, std::string_view name) {
  constexpr size_t none = std::string_view::npos;
  size_t g = 0, n = 0, star = none, star_name = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_name = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g, ++n;
    } else if (star != none) {
      g = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

} // namespace

bool glob_match(const char *globs, const char *name) {
  std::string_view rest = globs;
  for (;;) {
    const size_t comma = rest.find(',');
    if (match(trim(rest.substr(0, comma)), name)) return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
}

} // namespace polyconv
