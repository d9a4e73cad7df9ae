// tiles.hpp - the eight tile registers of AMX: 16 rows of 64 bytes each. In a pass without AMX the same operations in
// plain loops, so that everything built on them is tested on any machine (tests/soft_tiles).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/convert.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

#if defined(__AMX_TILE__) || defined(__AMXTILE__) // clang up to 15 has the second name alone

// A tile instruction and what keeps the next one from following it at once. Where a core's other hardware thread is
// busy, tile instructions in a row take 13 ns each, with 8 others or more between them 7 to 8; where it is not, these
// cost nothing, as a product takes 16 cycles (docs/performance/cpu/matrix.md).
#define POLYCONV_SPACED(instruction) instruction "\n\t.rept 12\n\tnop\n\t.endr"

// Sets all tiles to 16 rows of 64 bytes for this thread, and gives the registers back in the end.
class TileScope {
 public:
  POLYCONV_MEMBER TileScope() {
    struct alignas(64) Palette {
      uint8_t palette, start_row, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } palette = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    // The compiler's own _tile_loadconfig names 8 bytes as its operand (gcc 12), so stores to the others are dropped.
    __asm__ volatile("ldtilecfg %0" ::"m"(palette));
  }
  POLYCONV_MEMBER ~TileScope() { __asm__ volatile("tilerelease"); }
};

// T, C, A and B are numbers of registers. The compiler's own functions take no template parameters for them (gcc 12).
class Tiles {
 public:
  template <int T>
  POLYCONV_MEMBER void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  POLYCONV_MEMBER void load(const void *p, int64_t row_stride) {
    __asm__ volatile(POLYCONV_SPACED("tileloadd (%0,%1,1), %%tmm%c2")::"r"(p), "r"(row_stride), "i"(T) : "memory");
  }
  // The same for what is not to stay in the L1 cache.
  template <int T>
  POLYCONV_MEMBER void load_past(const void *p, int64_t row_stride) {
    __asm__ volatile(POLYCONV_SPACED("tileloaddt1 (%0,%1,1), %%tmm%c2")::"r"(p), "r"(row_stride), "i"(T) : "memory");
  }
  template <int T>
  POLYCONV_MEMBER void store(void *p, int64_t row_stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(row_stride), "i"(T) : "memory");
  }
  // C += A * B: a row of A holds pairs of channels, a row of B such pairs for 16 output channels.
  template <int C, int A, int B>
  POLYCONV_MEMBER void multiply_bf16() {
    __asm__ volatile(POLYCONV_SPACED("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0")::"i"(C), "i"(A), "i"(B));
  }
  // The same for quads of 8-bit integers.
  template <int C, int A, int B, bool SignedA, bool SignedB>
  POLYCONV_MEMBER void multiply_integers() {
    if constexpr (SignedA && SignedB)
      __asm__ volatile(POLYCONV_SPACED("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0")::"i"(C), "i"(A), "i"(B));
    else if constexpr (SignedA)
      __asm__ volatile(POLYCONV_SPACED("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0")::"i"(C), "i"(A), "i"(B));
    else if constexpr (SignedB)
      __asm__ volatile(POLYCONV_SPACED("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0")::"i"(C), "i"(A), "i"(B));
    else
      __asm__ volatile(POLYCONV_SPACED("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0")::"i"(C), "i"(A), "i"(B));
  }
};

#else

struct TileScope {
  POLYCONV_MEMBER TileScope() {}
  POLYCONV_MEMBER ~TileScope() {}
};

using SoftTile = uint32_t[16][16];

template <class T>
POLYCONV_INLINE T soft_part(const SoftTile &tile, int row, int i) {
  T value;
  __builtin_memcpy(&value, reinterpret_cast<const char *>(tile[row]) + i * sizeof(T), sizeof value);
  return value;
}

// C += A * B, each sum in the order of k. One copy for all tiles, and factors that are converted once, not for each
// product: in the kernels, which multiply in many places, such loops would take a minute to compile.
POLYCONV_NOINLINE void soft_multiply_bf16(SoftTile &c, const SoftTile &a, const SoftTile &b) {
  float weights[32][16];
  for (int k = 0; k < 32; ++k)
    for (int column = 0; column < 16; ++column)
      weights[k][column] = scalar_f32(soft_part<bf16>(b, k / 2, 2 * column + k % 2));
  for (int row = 0; row < 16; ++row) {
    float sums[16];
    __builtin_memcpy(sums, c[row], sizeof sums);
    for (int k = 0; k < 32; ++k) {
      const float value = scalar_f32(soft_part<bf16>(a, row, k));
      for (int column = 0; column < 16; ++column) sums[column] += value * weights[k][column];
    }
    __builtin_memcpy(c[row], sums, sizeof sums);
  }
}

template <bool Signed>
POLYCONV_INLINE int32_t soft_integer(const SoftTile &tile, int row, int i) {
  return Signed ? int32_t{soft_part<int8_t>(tile, row, i)} : int32_t{soft_part<uint8_t>(tile, row, i)};
}

template <bool SignedA, bool SignedB>
POLYCONV_NOINLINE void soft_multiply_integers(SoftTile &c, const SoftTile &a, const SoftTile &b) {
  int32_t weights[64][16];
  for (int k = 0; k < 64; ++k)
    for (int column = 0; column < 16; ++column)
      weights[k][column] = soft_integer<SignedB>(b, k / 4, 4 * column + k % 4);
  for (int row = 0; row < 16; ++row) {
    uint32_t sums[16];
    __builtin_memcpy(sums, c[row], sizeof sums);
    for (int k = 0; k < 64; ++k) {
      const int32_t value = soft_integer<SignedA>(a, row, k);
      for (int column = 0; column < 16; ++column) sums[column] += static_cast<uint32_t>(value * weights[k][column]);
    }
    __builtin_memcpy(c[row], sums, sizeof sums);
  }
}

class Tiles {
 public:
  template <int T>
  POLYCONV_MEMBER void zero() {
    __builtin_memset(tile_[T], 0, sizeof tile_[T]);
  }
  template <int T>
  POLYCONV_MEMBER void load(const void *p, int64_t row_stride) {
    for (int row = 0; row < 16; ++row)
      __builtin_memcpy(tile_[T][row], static_cast<const char *>(p) + row * row_stride, sizeof tile_[T][row]);
  }
  template <int T>
  POLYCONV_MEMBER void load_past(const void *p, int64_t row_stride) {
    load<T>(p, row_stride);
  }
  template <int T>
  POLYCONV_MEMBER void store(void *p, int64_t row_stride) {
    for (int row = 0; row < 16; ++row)
      __builtin_memcpy(static_cast<char *>(p) + row * row_stride, tile_[T][row], sizeof tile_[T][row]);
  }
  template <int C, int A, int B>
  POLYCONV_MEMBER void multiply_bf16() {
    soft_multiply_bf16(tile_[C], tile_[A], tile_[B]);
  }
  template <int C, int A, int B, bool SignedA, bool SignedB>
  POLYCONV_MEMBER void multiply_integers() {
    soft_multiply_integers<SignedA, SignedB>(tile_[C], tile_[A], tile_[B]);
  }

 private:
  SoftTile tile_[8];
};

#endif

} // namespace polyconv::cpu::POLYCONV_ISA
