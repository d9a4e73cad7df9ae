// detect_arm.cpp - what a 64-bit Arm can do, as its operating system says. Only Linux is asked: elsewhere it is NEON.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/detect.hpp"

#if defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace polyconv::cpu {
namespace {

#if defined(__linux__)
// The bytes of this thread's SVE registers, 0 where there are none. A process or a thread of it may be given shorter
// ones than the processor has; those of threads that are started later are as long, unless the program asks otherwise.
int64_t sve_bytes() {
  constexpr unsigned long kSve = 1ul << 22; // HWCAP_SVE
  constexpr int kGetLength = 51;            // PR_SVE_GET_VL
  constexpr long kLengthMask = 0xffff;
  const long length = getauxval(AT_HWCAP) & kSve ? prctl(kGetLength) : -1;
  return length < 0 ? 0 : length & kLengthMask;
}
bool has_byte_dots() {
  constexpr unsigned long kDotProducts = 1ul << 20; // HWCAP_ASIMDDP
  return getauxval(AT_HWCAP) & kDotProducts;
}
bool has_dots() {
  constexpr unsigned long kI8mm = 1ul << 13, kBf16 = 1ul << 14, kBoth = kI8mm | kBf16; // of HWCAP2
  return (getauxval(AT_HWCAP2) & kBoth) == kBoth;
}
#else
int64_t sve_bytes() {
  return 0;
}
bool has_byte_dots() {
  return false;
}
bool has_dots() {
  return false;
}
#endif

} // namespace

uint32_t detect() {
  uint32_t found = 1u << kBaseline | 1u << kNeon;
  if (sve_bytes() == 32) found |= 1u << kSve256;
  if (sve_bytes() == 64) found |= 1u << kSve512;
  if (has_byte_dots()) found |= 1u << kNeonDot;
  if (has_dots()) found |= 1u << kNeonBf16;
  return found;
}

} // namespace polyconv::cpu
#endif
