// isa.cpp - detects the instruction set. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/isa.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/bytes.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <cstdlib>
#include <cstring>

#if POLYCONV_HAVE_AVX2
#include <cpuid.h>
#endif

namespace polyconv::cpu {

const char *const isa_names[kIsaLevels] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};

namespace {

#if POLYCONV_HAVE_AVX2
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

Isa detect() {
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
#else
Isa detect() {
  return kBaseline;
}
#endif

// Linux saves tiles, 8 KiB a thread, only for processes that ask: arch_prctl(ARCH_REQ_XCOMP_PERM, tile data),
// since 5.16.
bool ask_for_tiles() {
#if POLYCONV_HAVE_AVX2 && defined(__linux__) && defined(__x86_64__)
  constexpr int64_t kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  int64_t result = kArchPrctl;
  __asm__ volatile("syscall" : "+a"(result) : "D"(kRequestPermission), "S"(kTileData) : "rcx", "r11", "memory");
  return result == 0;
#else
  return false;
#endif
}
bool tiles_permitted() {
  static const bool permitted = ask_for_tiles();
  return permitted;
}

// POLYCONV_MAX_ISA as an Isa; the highest where unset, -1 where not understood.
int allowed() {
  const char *text = std::getenv("POLYCONV_MAX_ISA");
  if (!text || !*text) return kAmx;
  for (int isa = kBaseline; isa <= kAmx; ++isa)
    if (!std::strcmp(text, isa_names[isa])) return isa;
  return -1;
}

struct Detected {
  Isa machine;
  int cap;
};
const Detected &detected() {
  static const Detected once = {detect(), allowed()};
  return once;
}

} // namespace

Isa best_isa() {
  const Detected &d = detected();
  int best = d.machine < kIsaCount ? d.machine : kIsaCount - 1;
  if (d.cap >= 0 && d.cap < best) best = d.cap;
  return static_cast<Isa>(best);
}

bool has_isa(Isa isa, sdk::Offer &offer) {
  const Detected &d = detected();
  static const char *const kWords[] = {"the baseline", "AVX2 with FMA", "AVX-512", "AVX-512 with VNNI and BF16",
                                       "AMX with BF16 and INT8"};
  if (isa > d.machine) return offer.reject("this CPU or its operating system has no %s", kWords[isa]);
  if (d.cap >= 0 && isa > d.cap) return offer.reject("POLYCONV_MAX_ISA=%s excludes it", isa_names[d.cap]);
  if (isa == kAmx && !tiles_permitted()) return offer.reject("the operating system refuses this process AMX tiles");
  return true;
}

bool choose_isa(int32_t config, sdk::Offer &offer, Isa &isa) {
  isa = config < 0 ? best_isa() : static_cast<Isa>(config);
  offer.config = isa;
  return has_isa(isa, offer);
}

polyconv_status probe(char *reason, size_t size) {
  const Detected &d = detected();
  if (d.cap < 0) {
    constexpr const char *kComplaint =
        "POLYCONV_MAX_ISA is '%.32s'; expected baseline, avx2, avx512, avx512_bf16 or amx";
    const char *word = std::getenv("POLYCONV_MAX_ISA");
    char line[160];
    std::snprintf(line, sizeof line, kComplaint, word ? word : "");
    std::snprintf(reason, size, "%s (ignored: %s)", isa_names[d.machine], line);
    std::strncat(line, ": ignored", sizeof line - std::strlen(line) - 1);
    if (sdk::host != nullptr) sdk::host->log(POLYCONV_LOG_WARNING, line);
  } else {
    std::snprintf(reason, size, "%s", isa_names[d.cap < d.machine ? d.cap : d.machine]);
  }
  return POLYCONV_SUCCESS;
}

double flops_per_us(Isa isa, int32_t sum_type) {
  static constexpr double kF32[] = {38e3, 85e3, 170e3}; // three quarters of what cycle_us counts with
  const double f32 = kF32[vectors_of(isa)];
  return sum_type == POLYCONV_F64 ? f32 / 2 : f32;
}

double cycle_us(Isa isa) {
  static constexpr double kFlopsPerUs[] = {50e3, 110e3, 220e3};
  // 2 vectors of 4-byte elements, 2 operations each
  return static_cast<double>(vector_bytes(isa)) / kFlopsPerUs[vectors_of(isa)];
}

int64_t tasks_for(const polyconv_policy &policy, double serial_us) {
  constexpr double kWorthForking = 5.0;
  return serial_us < kWorthForking || policy.threads < 1 ? 1 : policy.threads;
}

double estimate_us(int64_t tasks, double arithmetic_us, double bytes) {
  const double streams = tasks < 8 ? static_cast<double>(tasks) : 8.0; // more cores than that share the memory
  const double memory = bytes / (kBytesPerUs * streams);
  const double arithmetic = arithmetic_us / static_cast<double>(tasks);
  return (arithmetic > memory ? arithmetic + 0.2 * memory : memory + 0.2 * arithmetic) + (tasks > 1 ? 1.5 : 0.0) + 0.1;
}

double group_lines_us(const polyconv_layer &layer) {
  constexpr double kLineUs = 0.005;
  constexpr int64_t kLine = 64;
  double lines = 0;
  for (const polyconv_tensor *t : {&layer.input, &layer.output}) {
    const int64_t *n = t->size, bytes = n[sdk::kC] / layer.groups * sdk::type_bytes(t->type);
    if (layer.groups > 1 && t->stride[sdk::kC] == 1 && bytes < kLine)
      lines += static_cast<double>(layer.groups * n[sdk::kN] * n[sdk::kD] * n[sdk::kH] * n[sdk::kW]);
  }
  return lines * kLineUs;
}

} // namespace polyconv::cpu
