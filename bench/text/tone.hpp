// tone.hpp - what a line on a terminal means, said by its colour beside its words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace polyconv::bench {

enum class Tone { kPlain, kGood, kBad, kStrong };

// The text with the codes of its tone around it, as ECMA-48 has them: green, red, bold.
inline std::string toned(const std::string &text, Tone tone) {
  const char *code = tone == Tone::kGood ? "32" : tone == Tone::kBad ? "31" : tone == Tone::kStrong ? "1" : nullptr;
  return code == nullptr || text.empty() ? text : std::string("\033[") + code + "m" + text + "\033[0m";
}

} // namespace polyconv::bench
