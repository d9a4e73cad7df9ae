// isa.cpp - the instruction set that kernels run with: what the machine has (detect.hpp), less what POLYCONV_MAX_ISA
// excludes. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/isa.hpp"
#include "cpu/detect.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/bytes.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <cstdlib>
#include <cstring>
#include <string>

namespace polyconv::cpu {

#if defined(__aarch64__)
const char *const isa_names[kIsaLevels] = {"baseline", "neon", "sve256", "sve512", "neon_dot", "neon_bf16"};
#else
const char *const isa_names[kIsaLevels] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};
#endif

const char *words_of(Isa isa) {
#if defined(__aarch64__)
  static const char *const kWords[] = {"the baseline",           "NEON",
                                       "SVE of 256 bits",        "SVE of 512 bits",
                                       "NEON with dot products", "NEON with BF16 and I8MM"};
#else
  static const char *const kWords[] = {"the baseline", "AVX2 with FMA", "AVX-512", "AVX-512 with VNNI and BF16",
                                       "AMX with BF16 and INT8"};
#endif
  return kWords[isa];
}

namespace {

#if !defined(__aarch64__)
bool tiles_permitted() {
  static const bool permitted = ask_for_tiles();
  return permitted;
}
#endif

// POLYCONV_MAX_ISA as an Isa; the highest where unset, -1 where not understood.
int allowed() {
  const char *text = std::getenv("POLYCONV_MAX_ISA");
  if (!text || !*text) return kIsaLevels - 1;
  for (int isa = kBaseline; isa < kIsaLevels; ++isa)
    if (!std::strcmp(text, isa_names[isa])) return isa;
  return -1;
}

struct Detected {
  uint32_t machine; // a bit for each Isa
  int cap;

  bool has(int isa) const { return machine >> isa & 1; }
  // The highest below `end` that is there and, of an understood POLYCONV_MAX_ISA, not above it.
  Isa best(int end) const {
    int isa = end - 1;
    while (isa > kBaseline && (!has(isa) || (cap >= 0 && isa > cap))) --isa;
    return static_cast<Isa>(isa);
  }
};
const Detected &detected() {
  static const Detected once = {detect(), allowed()};
  return once;
}

// "baseline, avx2, avx512, avx512_bf16 or amx"
std::string expected_names() {
  std::string list = isa_names[0];
  for (int isa = 1; isa < kIsaLevels; ++isa)
    list += (isa + 1 < kIsaLevels ? ", " : " or ") + std::string(isa_names[isa]);
  return list;
}

// What a list of backends says: the best, and what it has beside its vectors.
std::string summary(const Detected &d) {
#if defined(__aarch64__)
  const bool dots = d.has(kDots) && (d.cap < 0 || d.cap >= kDots);
  return isa_names[d.best(kIsaCount)] + std::string(dots ? " with " : "") + (dots ? isa_names[kDots] : "");
#else
  return isa_names[d.best(kIsaLevels)];
#endif
}

} // namespace

Isa best_isa() {
  return detected().best(kIsaCount);
}

bool has_isa(Isa isa, sdk::Offer &offer) {
  const Detected &d = detected();
  if (!d.has(isa)) return offer.reject("this CPU or its operating system has no %s", words_of(isa));
  if (d.cap >= 0 && isa > d.cap) return offer.reject("POLYCONV_MAX_ISA=%s excludes it", isa_names[d.cap]);
#if !defined(__aarch64__)
  if (isa == kAmx && !tiles_permitted()) return offer.reject("the operating system refuses this process AMX tiles");
#endif
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
    const char *word = std::getenv("POLYCONV_MAX_ISA");
    char line[160];
    std::snprintf(line, sizeof line, "POLYCONV_MAX_ISA is '%.32s'; expected %s", word ? word : "",
                  expected_names().c_str());
    std::snprintf(reason, size, "%s (ignored: %s)", summary(d).c_str(), line);
    std::strncat(line, ": ignored", sizeof line - std::strlen(line) - 1);
    if (sdk::host != nullptr) sdk::host->log(POLYCONV_LOG_WARNING, line);
  } else {
    std::snprintf(reason, size, "%s", summary(d).c_str());
  }
  return POLYCONV_SUCCESS;
}

double flops_per_us(Isa isa, int32_t sum_type) {
  // Three quarters of what cycle_us counts with, by the length of vectors.
  static constexpr double kF32[] = {38e3, 85e3, 170e3};
  const double f32 = kF32[vector_bytes(isa) / 32];
  return sum_type == POLYCONV_F64 ? f32 / 2 : f32;
}

double cycle_us(Isa isa) {
  static constexpr double kFlopsPerUs[] = {50e3, 110e3, 220e3};
  // 2 vectors of 4-byte elements, 2 operations each
  return static_cast<double>(vector_bytes(isa)) / kFlopsPerUs[vector_bytes(isa) / 32];
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
