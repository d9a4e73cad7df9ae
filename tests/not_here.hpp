// not_here.hpp - why a kernel does not run here, told apart from why it does not take a problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace polyconv_test {

// Whether a sentence has a reason that is the machine's or the caller's setting, not the problem's.
inline bool is_not_here(const std::string &sentence) {
  for (const char *reason : {"this CPU or its operating system has no ", "POLYCONV_MAX_ISA=",
                             "the operating system refuses ", "the compiler of this build knows no "})
    if (sentence.find(reason) != std::string::npos) return true;
  return false;
}

} // namespace polyconv_test
