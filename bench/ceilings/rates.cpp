// rates.cpp - the loops that this build has and this processor can run.
// SPDX-License-Identifier: Apache-2.0
#include "rates.hpp"

#include <cstring>

namespace polyconv::bench {

double fma_f32_baseline(int64_t rounds);
double fma_f64_baseline(int64_t rounds);
#ifdef POLYCONV_BENCH_X86
double fma_f32_avx2(int64_t rounds);
double fma_f64_avx2(int64_t rounds);
double fma_f32_avx512(int64_t rounds);
double fma_f64_avx512(int64_t rounds);
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

} // namespace

std::vector<FmaLoop> fma_loops() {
  std::vector<FmaLoop> loops;
  loops.push_back({"baseline", fma_f32_baseline, fma_f64_baseline});
#ifdef POLYCONV_BENCH_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    loops.push_back({"avx2", fma_f32_avx2, fma_f64_avx2});
  if (__builtin_cpu_supports("avx512f")) loops.push_back({"avx512", fma_f32_avx512, fma_f64_avx512});
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
