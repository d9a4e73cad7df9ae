// rates.cpp - the loops that this build has and this processor can run.
// SPDX-License-Identifier: Apache-2.0
#include "ceilings/rates.hpp"

#include <algorithm>
#include <cstring>

#ifdef POLYCONV_BENCH_X86
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace polyconv::bench {

double fma_f32_baseline(int64_t rounds);
double fma_f64_baseline(int64_t rounds);
#ifdef POLYCONV_BENCH_X86
double fma_f32_avx2(int64_t rounds);
double fma_f64_avx2(int64_t rounds);
double fma_f32_avx512(int64_t rounds);
double fma_f64_avx512(int64_t rounds);
double fma_bf16_avx512(int64_t rounds);
double fma_s8_vnni(int64_t rounds);
double fma_bf16_amx(int64_t rounds);
double fma_s8_amx(int64_t rounds);
void copy_nontemporal(void *destination, const void *source, size_t bytes);
#endif

namespace {

// Word by word: what a kernel that does not know the machine would do. Not memcpy: the barrier keeps the compiler
// from recognising it.
void copy_plain(void *destination, const void *source, size_t bytes) {
  auto *to = static_cast<uint64_t *>(destination);
  const auto *from = static_cast<const uint64_t *>(source);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); i += 8) {
    for (size_t j = 0; j < 8; ++j) to[i + j] = from[i + j];
    asm volatile("" : : : "memory");
  }
}

void copy_memcpy(void *destination, const void *source, size_t bytes) {
  std::memcpy(destination, source, bytes);
}

#ifdef POLYCONV_BENCH_X86
struct Units {
  bool bf16, vnni, tiles_bf16, tiles_s8;
};

// Linux saves tiles only for processes that ask: arch_prctl(ARCH_REQ_XCOMP_PERM, tile data).
bool ask_for_tiles() {
#ifdef __linux__
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Of a processor with AVX-512 under a system that saves its registers: leaf 7 and its subleaf 1.
Units units_here() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0, eax1 = 0, ebx1 = 0, ecx1 = 0, edx1 = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return {};
  __get_cpuid_count(7, 1, &eax1, &ebx1, &ecx1, &edx1);
  const auto bit = [](unsigned word, int number) { return (word >> number & 1) != 0; };
  const bool tiles = bit(edx, 24) && (bit(edx, 22) || bit(edx, 25)) && ask_for_tiles();
  return {bit(eax1, 5), bit(ecx, 11), tiles && bit(edx, 22), tiles && bit(edx, 25)};
}
#endif

} // namespace

std::vector<FmaLoop> fma_loops() {
  std::vector<FmaLoop> loops = {{"fma_f32", "baseline", fma_f32_baseline}, {"fma_f64", "baseline", fma_f64_baseline}};
#ifdef POLYCONV_BENCH_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    loops.push_back({"fma_f32", "avx2", fma_f32_avx2});
    loops.push_back({"fma_f64", "avx2", fma_f64_avx2});
  }
  if (__builtin_cpu_supports("avx512f")) {
    loops.push_back({"fma_f32", "avx512", fma_f32_avx512});
    loops.push_back({"fma_f64", "avx512", fma_f64_avx512});
    const Units units = units_here();
    if (units.bf16) loops.push_back({"fma_bf16", "avx512_bf16", fma_bf16_avx512});
    if (units.vnni) loops.push_back({"fma_s8", "vnni", fma_s8_vnni});
    if (units.tiles_bf16) loops.push_back({"fma_bf16", "amx", fma_bf16_amx});
    if (units.tiles_s8) loops.push_back({"fma_s8", "amx", fma_s8_amx});
  }
  std::stable_sort(loops.begin(), loops.end(),
                   [](const FmaLoop &a, const FmaLoop &b) { return std::string(a.kind) < b.kind; });
#endif
  return loops;
}

std::vector<CopyLoop> copy_loops() {
  return {
      {"plain", copy_plain},
      {"memcpy", copy_memcpy},
#ifdef POLYCONV_BENCH_X86
      {"nontemporal", copy_nontemporal},
#endif
  };
}

} // namespace polyconv::bench
