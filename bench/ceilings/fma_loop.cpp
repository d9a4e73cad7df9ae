// fma_loop.cpp - one generic loop, compiled once for each instruction set by CMakeLists.txt, which defines
//   POLYCONV_BENCH_ISA         the name's suffix: baseline, avx2, avx512
//   POLYCONV_BENCH_VECTOR      bytes of a vector register
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

// Keeps a sum in its vector register, one multiply-add a round, whatever the optimiser would like.
#if defined(__x86_64__) || defined(__i386__)
#define POLYCONV_BENCH_PIN(vector) asm volatile("" : "+x"(vector))
#elif defined(__aarch64__)
#define POLYCONV_BENCH_PIN(vector) asm volatile("" : "+w"(vector))
#else
#define POLYCONV_BENCH_PIN(vector) asm volatile("" : "+m"(vector))
#endif

#define POLYCONV_BENCH_JOIN_(a, b) a##b
#define POLYCONV_BENCH_JOIN(a, b) POLYCONV_BENCH_JOIN_(a, b)

namespace polyconv::bench {

namespace {

template <class T>
double multiply_add(int64_t rounds) {
  typedef T Vector __attribute__((vector_size(POLYCONV_BENCH_VECTOR)));
  constexpr int sums = 12; // hides a latency of 4 to 6 cycles on two units, and leaves 4 of 16 registers
  // Read through volatile, so that nothing is computed at compile time; the factor keeps the sums finite.
  volatile T factor_source = T(0.5), addend_source = T(1);
  const Vector factor = Vector{} + factor_source, addend = Vector{} + addend_source;
  Vector sum[sums];
#pragma GCC unroll 12
  for (int i = 0; i < sums; ++i) sum[i] = addend * T(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) {
      sum[i] = sum[i] * factor + addend;
      POLYCONV_BENCH_PIN(sum[i]);
    }
  }
  Vector total = sum[0];
#pragma GCC unroll 12
  for (int i = 1; i < sums; ++i) total += sum[i];
  volatile T result = total[0];
  (void)result;
  constexpr std::size_t lanes = POLYCONV_BENCH_VECTOR / sizeof(T);
  return 2.0 * static_cast<double>(rounds) * sums * static_cast<double>(lanes);
}

} // namespace

double POLYCONV_BENCH_JOIN(fma_f32_, POLYCONV_BENCH_ISA)(int64_t rounds) {
  return multiply_add<float>(rounds);
}
double POLYCONV_BENCH_JOIN(fma_f64_, POLYCONV_BENCH_ISA)(int64_t rounds) {
  return multiply_add<double>(rounds);
}

} // namespace polyconv::bench
