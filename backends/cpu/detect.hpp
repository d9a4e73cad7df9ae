// detect.hpp - what the processor and its operating system have: detect_<processor>.cpp, and the baseline alone
// elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"

namespace polyconv::cpu {

#if defined(__aarch64__) || (defined(__x86_64__) && POLYCONV_HAVE_AVX2)
// A bit for each Isa that runs here, kBaseline among them.
uint32_t detect();
#else
inline uint32_t detect() {
  return 1u << kBaseline;
}
#endif

#if defined(__x86_64__) && POLYCONV_HAVE_AVX2
// Asks the operating system for AMX's tiles; whether it gives them to this process.
bool ask_for_tiles();
#else
inline bool ask_for_tiles() {
  return false;
}
#endif

} // namespace polyconv::cpu
