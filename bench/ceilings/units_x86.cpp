// units_x86.cpp - multiply-adds of narrow types on the units that x86 has for them: AVX512-BF16 and VNNI on vectors,
// AMX on tiles. Compiled for these instructions; called only where the processor has them (rates.cpp).
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace polyconv::bench {

namespace {

constexpr int kSums = 12; // as many as hide the latency of two units

// Nothing is moved over this, and what it names is computed.
#define POLYCONV_BENCH_PIN(vector) asm volatile("" : "+v"(vector))

template <class Sum, class Step>
void run_sums(int64_t rounds, const Sum &zero, const Step &step) {
  Sum sum[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sum[i] = zero;
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      sum[i] = step(sum[i]);
      POLYCONV_BENCH_PIN(sum[i]);
    }
  }
}

// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Four tiles of sums, two of each factor.
template <class Step>
double run_tiles(int64_t rounds, double operations, const Step &step) {
  const TileConfig config;
  asm volatile("" : : "r"(&config) : "memory"); // gcc believes that only its first bytes are read
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t round = 0; round < rounds; ++round) step();
  _tile_release();
  return static_cast<double>(rounds) * 4 * operations;
}

} // namespace

double fma_bf16_avx512(int64_t rounds) {
  const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f00)); // 0.5
  run_sums(rounds, _mm512_setzero_ps(), [&](__m512 sum) { return _mm512_dpbf16_ps(sum, factor, factor); });
  return static_cast<double>(rounds) * kSums * 64; // 16 sums of 2 products
}

double fma_s8_vnni(int64_t rounds) {
  const __m512i factor = _mm512_set1_epi8(1);
  run_sums(rounds, _mm512_setzero_si512(), [&](__m512i sum) { return _mm512_dpbusd_epi32(sum, factor, factor); });
  return static_cast<double>(rounds) * kSums * 128; // 16 sums of 4 products
}

double fma_bf16_amx(int64_t rounds) {
  return run_tiles(rounds, 2.0 * 16 * 16 * 32, [] {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  });
}

double fma_s8_amx(int64_t rounds) {
  return run_tiles(rounds, 2.0 * 16 * 16 * 64, [] {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  });
}

} // namespace polyconv::bench
