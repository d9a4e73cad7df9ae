// detect_x86.cpp - what an x86-64 can do, and its operating system lets it.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/detect.hpp"

#if defined(__x86_64__) && POLYCONV_HAVE_AVX2
#include <cpuid.h>

namespace polyconv::cpu {
namespace {

// The registers that the operating system saves: a CPU may have AVX-512 under a system that does not.
uint64_t saved_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Of a CPU with AVX-512: what it has beyond.
Isa detect_products(uint32_t ecx7, uint32_t edx7, uint64_t state) {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr uint32_t kVnni = 1u << 11, kBf16 = 1u << 5; // leaf 7, and its subleaf 1
  if (!(ecx7 & kVnni) || !__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || !(eax & kBf16)) return kAvx512;
  constexpr uint32_t kTiles = 1u << 22 | 1u << 24 | 1u << 25; // AMX-BF16, AMX-TILE, AMX-INT8
  constexpr uint64_t kTileState = 0x60000;
  return (edx7 & kTiles) == kTiles && (state & kTileState) == kTileState ? kAmx : kAvx512Bf16;
}

Isa highest() {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kNeeded1 = kFma | kOsxsave | kAvx | kF16c;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & kNeeded1) != kNeeded1) return kBaseline;
  const uint64_t state = saved_state();
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6;
  if ((state & kYmm) != kYmm) return kBaseline;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return kBaseline;
  constexpr uint32_t kBmi1 = 1u << 3, kAvx2Bit = 1u << 5, kBmi2 = 1u << 8;
  constexpr uint32_t kNeeded2 = kBmi1 | kAvx2Bit | kBmi2;
  if ((ebx & kNeeded2) != kNeeded2) return kBaseline;
  constexpr uint32_t kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint32_t kNeeded512 = kF | kDq | kBw | kVl;
  if ((ebx & kNeeded512) != kNeeded512 || (state & kZmm) != kZmm) return kAvx2;
  return detect_products(ecx, edx, state);
}

} // namespace

uint32_t detect() {
  return (2u << highest()) - 1; // each with all before it
}

// Linux saves tiles, 8 KiB a thread, only for processes that ask: arch_prctl(ARCH_REQ_XCOMP_PERM, tile data),
// since 5.16.
bool ask_for_tiles() {
#if defined(__linux__)
  constexpr int64_t kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  int64_t result = kArchPrctl;
  __asm__ volatile("syscall" : "+a"(result) : "D"(kRequestPermission), "S"(kTileData) : "rcx", "r11", "memory");
  return result == 0;
#else
  return false;
#endif
}

} // namespace polyconv::cpu
#endif
