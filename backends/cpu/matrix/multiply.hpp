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
  using Pixels = ProductsOf; // what brings inputs into strips knows: not what products are made of them
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

// What is done beside the products (MatrixBeside): nothing.
struct NothingBeside {
  POLYCONV_MEMBER void with_chunk() {}
  POLYCONV_MEMBER void with_product() {}
  POLYCONV_MEMBER void with_step() {}
};

template <class P>
constexpr int kStepsOf = static_cast<int>(sizeof P::kSteps / sizeof(PartStep));

// What is multiplied: positions from `source` on, channels from the panel's first.
struct MatrixTile {
  const char *source, *weights;
  int64_t position_bytes, next; // from a position to the next, from one tile of positions to the other
  const void *start;            // sums to begin with, one row for all positions; NULL: zeros
  void *sums;                   // rows of kMatrixPanel
  int64_t sums_row;             // bytes from one to the next
};

template <class P, int C, int A, int B, class Beside>
POLYCONV_INLINE void multiply_tiles(Tiles &tiles, Beside &beside) {
  if constexpr (sizeof(typename P::From) == 1)
    tiles.template multiply_integers<C, A, B, P::kSignedInput, P::kSignedWeights>();
  else
    tiles.template multiply_bf16<C, A, B>();
  beside.with_product();
}

// Sums that are in the registers yet: they leave when the next tile needs these, one after the other, as storing all
// four at once would leave the units for tiles idle for the time of some twenty products.
struct MatrixHeld {
  char *sums; // NULL: none
  int64_t row;
  bool two_positions;
  bool wide; // four tiles of channels of one tile of positions
};

template <int T>
POLYCONV_INLINE void store_held(Tiles &tiles, const MatrixHeld &held) {
  if (!held.sums || (T >= 2 && !held.two_positions && !held.wide)) return;
  const int64_t square = T / 2 * kMatrixRows * held.row + T % 2 * kMatrixRowBytes;
  tiles.template store<T>(held.sums + (held.wide ? T * kMatrixRowBytes : square), held.row);
}

POLYCONV_INLINE void store_all(Tiles &tiles, MatrixHeld &held) {
  store_held<0>(tiles, held), store_held<1>(tiles, held), store_held<2>(tiles, held), store_held<3>(tiles, held);
  held.sums = nullptr;
}

// Gives register T to the next tile, if that uses it.
template <int T, bool Used, bool Wide = false>
POLYCONV_INLINE void turn_over(Tiles &tiles, const MatrixHeld &held, const char *start) {
  store_held<T>(tiles, held);
  if constexpr (Used) {
    if (start) // the same row for all positions
      tiles.template load<T>(start + (Wide ? T : T % 2) * kMatrixRowBytes, 0);
    else
      tiles.template zero<T>();
  }
}

// What a chunk's products read beside the pointers to it.
struct MatrixOperands {
  int64_t next, stride, part_bytes;
  const char *start;
  bool weights_past;
};

template <class P, int T>
POLYCONV_INLINE void load_weights(Tiles &tiles, const MatrixOperands &o, const char *weights) {
  if (P::kParts == 1 && o.weights_past)
    tiles.template load_past<T>(weights, kMatrixRowBytes);
  else
    tiles.template load<T>(weights, kMatrixRowBytes);
}

// Registers 0 to 3 are sums, 4 and 5 positions, 6 and 7 weights. A register is loaded just before it is needed.
template <class P, int M, int N, int Step, bool First, class Beside>
POLYCONV_INLINE void multiply_chunk(Tiles &tiles, const MatrixHeld &held, const MatrixOperands &o, const char *source,
                                    const char *weights, Beside &beside) {
  constexpr PartStep kStep = P::kSteps[Step];
  const char *const a = source + kStep.source * o.part_bytes, *const b = weights + kStep.weights * 2 * kMatrixTileBytes;
  if constexpr (kStep.weights >= 0) load_weights<P, 6>(tiles, o, b);
  if constexpr (kStep.source >= 0) tiles.template load<4>(a, o.stride);
  if constexpr (First) turn_over<0, true>(tiles, held, o.start);
  multiply_tiles<P, 0, 4, 6>(tiles, beside);
  if constexpr (kStep.source < 0 && M == 2) multiply_tiles<P, 2, 5, 6>(tiles, beside);
  if constexpr (kStep.weights >= 0 && N == 2) load_weights<P, 7>(tiles, o, b + kMatrixTileBytes);
  if constexpr (First) turn_over<1, N == 2>(tiles, held, o.start);
  if constexpr (N == 2) multiply_tiles<P, 1, 4, 7>(tiles, beside);
  if constexpr (kStep.source >= 0 && M == 2) tiles.template load<5>(a + o.next, o.stride);
  if constexpr (First) turn_over<2, M == 2>(tiles, held, o.start);
  if constexpr (kStep.source >= 0 && M == 2) multiply_tiles<P, 2, 5, 6>(tiles, beside);
  if constexpr (First) turn_over<3, M == 2 && N == 2>(tiles, held, o.start);
  if constexpr (M == 2 && N == 2) multiply_tiles<P, 3, 5, 7>(tiles, beside);
  beside.with_step();
  if constexpr (Step + 1 < kStepsOf<P>)
    multiply_chunk<P, M, N, Step + 1, false>(tiles, held, o, source, weights, beside);
}

// M tiles of positions, N of output channels.
template <class P, int M, int N, class Beside>
POLYCONV_NOINLINE void multiply(const MatrixPlan &p, const MatrixTile &t, Tiles &tiles, MatrixHeld &held,
                                Beside &beside) {
  const MatrixOperands o = {t.next, t.position_bytes, p.part_bytes, static_cast<const char *>(t.start),
                            p.weights_past != 0};
  const int64_t *taps = p.taps, count = p.tap_count;
  const char *source = t.source, *weights = t.weights;
  const auto next_weights = [&] { return weights += P::kParts * 2 * kMatrixTileBytes; };
  beside.with_chunk();
  multiply_chunk<P, M, N, 0, true>(tiles, held, o, source + taps[0], weights, beside);
  next_weights();
  for (int64_t chunk = 0, tap = 1; chunk < p.chunks; ++chunk, tap = 0, source += p.chunk_bytes)
    for (; tap < count; ++tap, next_weights()) {
      beside.with_chunk();
      multiply_chunk<P, M, N, 0, false>(tiles, held, o, source + taps[tap], weights, beside);
    }
  held = {static_cast<char *>(t.sums), t.sums_row, M == 2, false};
}

// One tile of positions by the four of two neighbouring panels. Register 4 is positions, 5 to 7 weights.
template <class P, bool First, class Beside>
POLYCONV_INLINE void multiply_wide_chunk(Tiles &tiles, const MatrixHeld &held, const MatrixOperands &o,
                                         const char *source, const char *weights, int64_t panel_bytes, Beside &beside) {
  load_weights<P, 6>(tiles, o, weights);
  tiles.template load<4>(source, o.stride);
  if constexpr (First) turn_over<0, true, true>(tiles, held, o.start);
  multiply_tiles<P, 0, 4, 6>(tiles, beside);
  load_weights<P, 7>(tiles, o, weights + kMatrixTileBytes);
  if constexpr (First) turn_over<1, true, true>(tiles, held, o.start);
  multiply_tiles<P, 1, 4, 7>(tiles, beside);
  load_weights<P, 5>(tiles, o, weights + panel_bytes);
  if constexpr (First) turn_over<2, true, true>(tiles, held, o.start);
  multiply_tiles<P, 2, 4, 5>(tiles, beside);
  load_weights<P, 6>(tiles, o, weights + panel_bytes + kMatrixTileBytes);
  if constexpr (First) turn_over<3, true, true>(tiles, held, o.start);
  multiply_tiles<P, 3, 4, 6>(tiles, beside);
}

// All chunks of those, of one tap.
template <class P, class Beside>
POLYCONV_NOINLINE void multiply_wide(const MatrixPlan &p, const MatrixTile &t, Tiles &tiles, MatrixHeld &held,
                                     Beside &beside) {
  const MatrixOperands o = {0, t.position_bytes, 0, static_cast<const char *>(t.start), p.weights_past != 0};
  const char *source = t.source, *weights = t.weights;
  beside.with_chunk();
  multiply_wide_chunk<P, true>(tiles, held, o, source, weights, p.panel_bytes, beside);
  for (int64_t chunk = 1; chunk < p.chunks; ++chunk) {
    source += p.chunk_bytes, weights += 2 * kMatrixTileBytes;
    beside.with_chunk();
    multiply_wide_chunk<P, false>(tiles, held, o, source, weights, p.panel_bytes, beside);
  }
  held = {static_cast<char *>(t.sums), t.sums_row, false, true};
}

template <class P, class Beside>
POLYCONV_INLINE void multiply_of(bool two_positions, bool two_channels, const MatrixPlan &p, const MatrixTile &t,
                                 Tiles &tiles, MatrixHeld &held, Beside &beside) {
  if (two_positions)
    two_channels ? multiply<P, 2, 2>(p, t, tiles, held, beside) : multiply<P, 2, 1>(p, t, tiles, held, beside);
  else
    two_channels ? multiply<P, 1, 2>(p, t, tiles, held, beside) : multiply<P, 1, 1>(p, t, tiles, held, beside);
}

} // namespace polyconv::cpu::POLYCONV_ISA
