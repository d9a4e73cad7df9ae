// multiply.hpp - the innermost loop: two tiles of positions by two of output channels, over all chunks and taps.
//
// A chunk's products load four tiles and make four times four multiplications of 16 cycles each: 64 bytes a cycle are
// loaded for each of them, so operands come from the L1 cache or, half of them, from the L2 cache: the taps of a chunk
// follow each other, as they read the same few lines. Six products of parts load 14 tiles for 24 multiplications.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/matrix/plan.hpp"
#include "cpu/matrix/tiles.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// The parts to multiply next; -1: those loaded before.
struct PartStep {
  int source, weights;
};

// FromT is the input's type in memory; PartsN rows of 64 bytes, each in a plane of its own, are a chunk of it.
template <class FromT, class SumT, int PartsN>
struct ProductsOf {
  using From = FromT;
  using Sum = SumT;
  static constexpr int kParts = PartsN;
  static constexpr int kChannels = sizeof(FromT) == 1 ? 64 : 32; // of a chunk
};
struct Bf16Products : ProductsOf<bf16, float, 1> {
  static constexpr PartStep kSteps[] = {{0, 0}};
};
struct F16Products : ProductsOf<f16, float, 2> {
  static constexpr PartStep kSteps[] = {{1, 1}, {-1, 0}, {0, -1}, {-1, 1}};
};
struct ThreeProducts : ProductsOf<float, float, 2> {
  static constexpr PartStep kSteps[] = {{1, 0}, {0, -1}, {-1, 1}};
};
struct SixProducts : ProductsOf<float, float, 3> {
  static constexpr PartStep kSteps[] = {{2, 0}, {1, -1}, {-1, 1}, {0, -1}, {-1, 2}, {-1, 0}};
};
// The first parts alone, for sums that are not finite: an infinite number has NaN or 0 in its other parts.
template <class Products>
struct FirstProducts : Products {
  static constexpr PartStep kSteps[] = {{0, 0}};
};
template <bool SignedInput, bool SignedWeights>
struct IntegerProducts : ProductsOf<uint8_t, int32_t, 1> {
  static constexpr PartStep kSteps[] = {{0, 0}};
  static constexpr bool kSignedInput = SignedInput, kSignedWeights = SignedWeights;
};

// Input that the next blocks read, fetched a few lines at a time while these are multiplied: bringing them in would
// wait for memory, and multiplying leave it idle.
struct MatrixAhead {
  const char *at, *end;
  int64_t lines; // at a time

  POLYCONV_MEMBER void fetch() {
    for (int64_t i = 0; i < lines && at < end; ++i, at += kMatrixRowBytes) __builtin_prefetch(at, 0, 2);
  }
};

// What is multiplied: positions from `source` on, channels from the panel's first.
struct MatrixTile {
  const char *source, *weights;
  int64_t position_bytes, next; // from a position to the next, from one tile of positions to the other
  const void *start;            // sums to begin with, one row for all positions; NULL: zeros
  void *sums;                   // rows of kMatrixPanel
  int64_t sums_row;             // bytes from one to the next
};

template <class P, int C, int A, int B>
POLYCONV_INLINE void multiply_tiles(Tiles &tiles) {
  if constexpr (sizeof(typename P::From) == 1)
    tiles.template multiply_integers<C, A, B, P::kSignedInput, P::kSignedWeights>();
  else
    tiles.template multiply_bf16<C, A, B>();
}

// Registers 0 to 3 are sums, 4 and 5 positions, 6 and 7 weights. A register is loaded just before it is needed.
template <class P, int M, int N, int Step>
POLYCONV_INLINE void multiply_chunk(Tiles &tiles, const char *source, int64_t next, int64_t stride, int64_t part_bytes,
                                    const char *weights) {
  constexpr PartStep kStep = P::kSteps[Step];
  const char *const a = source + kStep.source * part_bytes, *const b = weights + kStep.weights * 2 * kMatrixTileBytes;
  if constexpr (kStep.weights >= 0) tiles.template load<6>(b, kMatrixRowBytes);
  if constexpr (kStep.source >= 0) tiles.template load<4>(a, stride);
  multiply_tiles<P, 0, 4, 6>(tiles);
  if constexpr (kStep.source < 0 && M == 2) multiply_tiles<P, 2, 5, 6>(tiles);
  if constexpr (kStep.weights >= 0 && N == 2) tiles.template load<7>(b + kMatrixTileBytes, kMatrixRowBytes);
  if constexpr (N == 2) multiply_tiles<P, 1, 4, 7>(tiles);
  if constexpr (kStep.source >= 0 && M == 2) {
    tiles.template load<5>(a + next, stride);
    multiply_tiles<P, 2, 5, 6>(tiles);
  }
  if constexpr (M == 2 && N == 2) multiply_tiles<P, 3, 5, 7>(tiles);
  if constexpr (Step + 1 < static_cast<int>(sizeof P::kSteps / sizeof(PartStep)))
    multiply_chunk<P, M, N, Step + 1>(tiles, source, next, stride, part_bytes, weights);
}

// M tiles of positions, N of output channels.
template <class P, int M, int N>
POLYCONV_NOINLINE void multiply(const MatrixPlan &p, const MatrixTile &t, MatrixAhead &ahead) {
  Tiles tiles;
  const char *start = static_cast<const char *>(t.start);
  if (start) { // stride 0: the same row for all positions
    tiles.template load<0>(start, 0);
    if constexpr (N == 2) tiles.template load<1>(start + kMatrixRowBytes, 0);
    if constexpr (M == 2) tiles.template load<2>(start, 0);
    if constexpr (M == 2 && N == 2) tiles.template load<3>(start + kMatrixRowBytes, 0);
  } else {
    tiles.template zero<0>();
    if constexpr (N == 2) tiles.template zero<1>();
    if constexpr (M == 2) tiles.template zero<2>();
    if constexpr (M == 2 && N == 2) tiles.template zero<3>();
  }
  const int64_t stride = t.position_bytes, next = t.next, part_bytes = p.part_bytes;
  const int64_t *taps = p.taps, count = p.tap_count;
  const char *source = t.source, *weights = t.weights;
  for (int64_t chunk = 0; chunk < p.chunks; ++chunk, source += p.chunk_bytes)
    for (int64_t tap = 0; tap < count; ++tap, weights += P::kParts * 2 * kMatrixTileBytes) {
      ahead.fetch();
      multiply_chunk<P, M, N, 0>(tiles, source + taps[tap], next, stride, part_bytes, weights);
    }
  char *sums = static_cast<char *>(t.sums);
  const int64_t row = t.sums_row;
  tiles.template store<0>(sums, row);
  if constexpr (N == 2) tiles.template store<1>(sums + kMatrixRowBytes, row);
  if constexpr (M == 2) tiles.template store<2>(sums + kMatrixRows * row, row);
  if constexpr (M == 2 && N == 2) tiles.template store<3>(sums + kMatrixRows * row + kMatrixRowBytes, row);
}

template <class P>
POLYCONV_INLINE void multiply_of(bool two_positions, bool two_channels, const MatrixPlan &p, const MatrixTile &t,
                                 MatrixAhead &ahead) {
  if (two_positions)
    two_channels ? multiply<P, 2, 2>(p, t, ahead) : multiply<P, 2, 1>(p, t, ahead);
  else
    two_channels ? multiply<P, 1, 2>(p, t, ahead) : multiply<P, 1, 1>(p, t, ahead);
}

} // namespace polyconv::cpu::POLYCONV_ISA
