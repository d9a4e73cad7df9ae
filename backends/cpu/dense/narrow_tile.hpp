// narrow_tile.hpp - the tiles of one vector of output channels (a group of up to 16 filters) that have a form of their
// own where there are 32 registers. As tiles of tile.hpp they would read an element for each multiply-add, so that
// loads decide; here taps share what they read, and a tile is longer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/dense/tile.hpp"

#if POLYCONV_VECTOR_REGISTERS == 32
namespace polyconv::cpu::POLYCONV_ISA {

// Where `Count` neighbouring pixels of the source lie: an address reaches nine of them.
template <class T, int Count>
struct DensePixels {
  static constexpr int kReach = 9;
  const char *bases[(Count + kReach - 1) / kReach];
  int64_t one, three, five, seven; // bytes to the first, third, fifth and seventh pixel behind an address
  POLYCONV_MEMBER DensePixels(const T *first, int64_t stride)
      : one(stride * static_cast<int64_t>(sizeof(T))), three(3 * one), five(5 * one), seven(7 * one) {
#pragma GCC unroll 4
    for (int i = 0; i < (Count + kReach - 1) / kReach; ++i)
      bases[i] = reinterpret_cast<const char *>(first) + i * kReach * one;
  }
  POLYCONV_MEMBER const T *at(int i) const {
    const char *base = bases[i / kReach];
    switch (i % kReach) {
      case 1: base += one; break;
      case 2: base += 2 * one; break;
      case 3: base += three; break;
      case 4: base += 4 * one; break;
      case 5: base += five; break;
      case 6: base += 2 * three; break;
      case 7: base += seven; break;
      case 8: base += 8 * one; break;
      default: break;
    }
    return reinterpret_cast<const T *>(base);
  }
  POLYCONV_MEMBER void next() { // element
#pragma GCC unroll 4
    for (const char *&base : bases) base += sizeof(T);
  }
};

// One run of Taps neighbouring taps, Step pixels from one output column to the next, for those of R output lines whose
// bit of `Lines` is set. A tile of one vector reads an element for each multiply-add, which is as fast as loads are;
// here an element is read once for all taps that meet it, so that the multiply-adds decide.
template <int Taps, int Step, int Lines, class T, int R, int M>
POLYCONV_INLINE void add_taps(const DenseTile<T> &t, const DenseRun<T> &run, Vector<T> (&sums)[R][M][1]) {
  constexpr int kPixels = (M - 1) * Step + Taps;
  DensePixels<T, kPixels> pixels(run.source + t.column * t.pixel_stride, t.tap_stride);
  const T *weights = t.weights + run.weights;
  for (int64_t k = 0; k < run.steps; ++k, weights += kDensePanel<T>, pixels.next()) {
    Vector<T> taps[Taps];
#pragma GCC unroll 3
    for (int b = 0; b < Taps; ++b) taps[b] = loaded(load(weights + b * t.tap_weights));
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      if (!(Lines >> r & 1)) continue;
#pragma GCC unroll 32
      for (int i = 0; i < kPixels; ++i) {
        if ((i == 0 && t.skips_first) || (i == kPixels - 1 && t.skips_last)) continue;
        const Vector<T> scalar = loaded(broadcast(pixels.at(i) + r * t.line_stride));
#pragma GCC unroll 3
        for (int b = 0; b < Taps; ++b)
          if (i >= b && (i - b) % Step == 0 && (i - b) / Step < M)
            sums[r][(i - b) / Step][0] = accumulate(sums[r][(i - b) / Step][0], scalar, taps[b]);
      }
    }
  }
}

// One run, for all M pixels of a tile of one vector.
template <class T, int M>
POLYCONV_INLINE void add_long_run(const DenseTile<T> &t, const DenseRun<T> &run, Vector<T> (&sums)[M][1]) {
  DensePixels<T, M> pixels(run.source + t.column * t.pixel_stride, t.pixel_stride);
  const T *weights = t.weights + run.weights;
  for (int64_t k = 0; k < run.steps; ++k, weights += kDensePanel<T>, pixels.next()) {
    const Vector<T> vector = load(weights);
#pragma GCC unroll 32
    for (int m = 0; m < M; ++m) sums[m][0] = accumulate(sums[m][0], broadcast(pixels.at(m)), vector);
  }
}

// The tile of one vector whose runs are of Taps taps: M pixels of R lines.
template <int Taps, int Step, int R, int M, class T>
POLYCONV_NOINLINE void dense_taps_tile(const DenseTile<T> &t) {
  Vector<T> sums[R][M][1];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      sums[r][m][0] = Vector<T>{};
      __builtin_prefetch(static_cast<char *>(t.result) + m * t.result_row + r * t.result_line, 1);
    }
  for (int64_t i = 0; i < t.run_count; ++i) {
    const DenseRun<T> &run = t.runs[i];
    if constexpr (R == 2) {
      if (run.lines == 3)
        add_taps<Taps, Step, 3>(t, run, sums);
      else if (run.lines == 2)
        add_taps<Taps, Step, 2>(t, run, sums);
      else
        add_taps<Taps, Step, 1>(t, run, sums);
    } else {
      add_taps<Taps, Step, 1>(t, run, sums);
    }
  }
  store_tile(t, sums[0]);
  if constexpr (R == 2) {
    DenseTile<T> second = t;
    second.result = static_cast<char *>(t.result) + t.result_line;
    second.residual = t.residual ? t.residual + t.residual_line : nullptr;
    store_tile(second, sums[1]);
  }
}

template <int Taps, int Step, class T>
POLYCONV_INLINE void dense_taps_tile_of(int64_t pixels, const DenseTile<T> &t) {
  if (pixels == 0) return; // of empty tensors
  if (t.result_line)
    return with_size<kDensePairMost, kDensePairLeast>(pixels,
                                                      [&](auto m) { dense_taps_tile<Taps, Step, 2, m.value>(t); });
  if constexpr (Taps > 1) with_size<kDensePixels>(pixels, [&](auto m) { dense_taps_tile<Taps, Step, 1, m.value>(t); });
}

// The tile of one vector and one tap of W, longer than others, as one vector leaves registers for twice as many pixels.
template <int M, class T>
POLYCONV_NOINLINE void dense_long_tile(const DenseTile<T> &t) {
  Vector<T> sums[M][1];
#pragma GCC unroll 32
  for (int m = 0; m < M; ++m) {
    sums[m][0] = Vector<T>{};
    __builtin_prefetch(static_cast<char *>(t.result) + m * t.result_row, 1);
  }
  for (int64_t i = 0; i < t.run_count; ++i) add_long_run(t, t.runs[i], sums);
  store_tile(t, sums);
}

// Of 15 to kDenseLong pixels.
template <class T>
POLYCONV_INLINE void dense_long_tile_of(int64_t pixels, const DenseTile<T> &t) {
  with_size<kDenseLong, kDensePixels + 1>(pixels, [&](auto m) { dense_long_tile<m.value>(t); });
}

} // namespace polyconv::cpu::POLYCONV_ISA
#endif
