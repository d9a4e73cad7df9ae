// tile.hpp - the register tile of the dense kernel: M pixels by N vectors of output channels, over the whole reduction.
//
// A step is one channel of one tap: N vectors of weights, M broadcast source elements, M * N multiply-adds. 14 x 2 sums
// (of 32 registers: AVX-512, Arm) or 6 x 2 (of 16) leave registers for the operands; 28 multiply-adds against 16 loads
// keep both FMA units of a core with two loads a cycle busy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/activate.hpp"
#include "cpu/dense/plan.hpp"
#include "cpu/tile/narrow.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kDensePixels = kManyRegisters ? 14 : 6, kDenseVectors = 2;
template <class T>
constexpr int kDensePanel = kDenseVectors *kLanes<T>; // output channels of packed weights, from one step to the next
constexpr int kDenseSteps = kSteps<8>;                // of a run

// `steps` neighbouring source elements and the weights that meet them. `source` is where output column 0 reads.
template <class T>
struct DenseRun {
  const T *source;
  int64_t weights; // elements from the panel's first
  int64_t steps;
  AxisOutputs inside;
  int64_t lines; // of a pair of output lines those that the run belongs to: bits
};

template <class T>
struct DenseTile {
  const DenseRun<T> *runs;
  int64_t run_count;
  int64_t column;       // of the first pixel
  int64_t pixel_stride; // elements of the source
  const T *weights;
  const T *start; // sums so far, M rows of start_stride; NULL: from zero
  int64_t start_stride;
  void *result;       // M rows: of T, or of bf16 where that is said
  int64_t result_row; // bytes from one to the next
  bool bf16_result;
  // Fetched into the cache meanwhile, so many elements a step: the next tile's source, and this tile's part of the
  // weights that come after its panel; elements from what one pixel, one tile fetches to what the next does.
  const T *source_ahead, *weights_ahead;
  int64_t source_ahead_step, weights_ahead_step, source_ahead_pixel, weights_ahead_tile;
  // Tiles of as many pixels, 0 for one: one behind the other, or of one pixel and panel after panel, whose weights lie
  // so many elements apart.
  int64_t count, panel_weights;
  const T *bias;     // added at the end, NULL: none
  const T *residual; // f32 only: added after it, M rows of residual_row elements; NULL: none
  int64_t residual_row;
  const T *lowest, *highest; // f32 only: what no result is below, or above; NULL: none
  bool hard_swish;           // f32 only
  bool stream;               // results pass the caches by
  bool chains;               // of one pixel: see add_in_chains
  int32_t rest;              // channels of the last vector, 0: all of them
  // See add_taps (narrow_tile.hpp): elements from one pixel, one tap's weights and one line's source to the next;
  // whether the first and last pixel that the tile reads are padding, which is left out.
  int64_t tap_stride, tap_weights, line_stride;
  int64_t result_line, residual_line; // of a pair of lines: bytes, elements from one to the next; else 0
  bool skips_first, skips_last;

  // To the tile behind this one, of m pixels.
  POLYCONV_MEMBER void advance(int64_t m) {
    column += m;
    result = static_cast<char *>(result) + m * result_row;
    if (residual) residual += m * residual_row;
    source_ahead += m * source_ahead_pixel;
    weights_ahead += weights_ahead_tile;
  }

  // To that of the same pixel and the next panel.
  POLYCONV_MEMBER void advance_panel() {
    weights += panel_weights;
    result = static_cast<char *>(result) + kDensePanel<T> * (bf16_result ? 2 : static_cast<int64_t>(sizeof(T)));
    if (bias) bias += kDensePanel<T>;
    if (residual) residual += kDensePanel<T>;
  }
};

// What is fetched into the cache next.
template <class T>
struct DenseAhead {
  const T *source, *weights;
};

// sums += a * b: element by element, and for elements of several channels the sum of their products.
#if defined(POLYCONV_DOTS) && defined(POLYCONV_NEON) && defined(__ARM_FEATURE_MATMUL_INT8)
POLYCONV_INLINE F32 accumulate(F32 sums, F32 a, F32 b) {
  return vbfdotq_f32(sums, bits_as<bfloat16x8_t>(a), bits_as<bfloat16x8_t>(b));
}
POLYCONV_INLINE S32 accumulate(S32 sums, S32 a, S32 b) {
  return vusdotq_s32(sums, bits_as<uint8x16_t>(a), bits_as<int8x16_t>(b));
}
#elif defined(POLYCONV_DOTS) && defined(POLYCONV_NEON)
// The instruction wants both signed: a less 128, which is in the plan's offset.
POLYCONV_INLINE S32 accumulate(S32 sums, S32 a, S32 b) {
  const uint8x16_t signs = veorq_u8(bits_as<uint8x16_t>(a), vdupq_n_u8(128));
  return vdotq_s32(sums, vreinterpretq_s8_u8(signs), bits_as<int8x16_t>(b));
}
#elif defined(POLYCONV_DOTS)
POLYCONV_INLINE F32 accumulate(F32 sums, F32 a, F32 b) {
  return bits_as<F32>(_mm512_dpbf16_ps(bits_as<__m512>(sums), bits_as<__m512bh>(a), bits_as<__m512bh>(b)));
}
POLYCONV_INLINE S32 accumulate(S32 sums, S32 a, S32 b) {
  return bits_as<S32>(_mm512_dpbusd_epi32(bits_as<__m512i>(sums), bits_as<__m512i>(a), bits_as<__m512i>(b)));
}
#else
POLYCONV_INLINE F32 accumulate(F32 sums, F32 a, F32 b) {
  return multiply_add(a, b, sums);
}
#endif
POLYCONV_INLINE F64 accumulate(F64 sums, F64 a, F64 b) {
  return multiply_add(a, b, sums);
}
#if !defined(POLYCONV_DOTS)
POLYCONV_INLINE S32 accumulate(S32 sums, S32 a, S32 b) {
#if defined(__AVX512BW__)
  return bits_as<S32>(
      _mm512_add_epi32(bits_as<__m512i>(sums), _mm512_madd_epi16(bits_as<__m512i>(a), bits_as<__m512i>(b))));
#elif defined(__AVX2__)
  return bits_as<S32>(
      _mm256_add_epi32(bits_as<__m256i>(sums), _mm256_madd_epi16(bits_as<__m256i>(a), bits_as<__m256i>(b))));
#elif defined(__SSE2__)
  return bits_as<S32>(_mm_add_epi32(bits_as<__m128i>(sums), _mm_madd_epi16(bits_as<__m128i>(a), bits_as<__m128i>(b))));
#elif defined(POLYCONV_NEON)
  const int16x8_t x = bits_as<int16x8_t>(a), y = bits_as<int16x8_t>(b);
  return sums + vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#else
  const S32 low = (bits_as<S32>(bits_as<U32>(a) << 16) >> 16) * (bits_as<S32>(bits_as<U32>(b) << 16) >> 16);
  const S32 high = (a >> 16) * (b >> 16);
  return bits_as<S32>(bits_as<U32>(sums) + bits_as<U32>(low) + bits_as<U32>(high));
#endif
}
#endif

// The same where the sums are.
template <class V>
POLYCONV_INLINE void accumulate_in(V &sums, V a, V b) {
  sums = accumulate(sums, a, b);
}
#if !defined(POLYCONV_DOTS)
POLYCONV_INLINE void accumulate_in(F32 &sums, F32 a, F32 b) {
  add_product(a, b, sums);
}
#endif

// Of integers modulo 2^32.
template <class V>
POLYCONV_INLINE V plus(V a, V b) {
  if constexpr (static_cast<decltype(a[0] + 0)>(0.5) == 0)
    return bits_as<V>(bits_as<U32>(a) + bits_as<U32>(b));
  else
    return a + b;
}

// An element of the source in every lane. Those that are several channels are no number: a load as f32 might mend it.
template <class T>
POLYCONV_INLINE Vector<T> broadcast(const T *p) {
#if defined(POLYCONV_DOTS)
  int32_t bits;
  __builtin_memcpy(&bits, p, sizeof bits); // in place it may lie anywhere
  return bits_as<Vector<T>>(splat(bits));
#else
  return splat_at(p);
#endif
}

// One step: what element `at` of a run's pixels [First, Last) gives, of which every third has a pointer.
template <int First, int Last, class T, int M, int N>
POLYCONV_INLINE void add_step(const T *const (&pixels)[(M + 2) / 3], int at, int64_t stride, const T *weights,
                              Vector<T> (&sums)[M][N]) {
  Vector<T> vectors[N];
  load_vectors(weights, vectors);
#pragma GCC unroll 16
  for (int m = First; m < Last; ++m) {
    const Vector<T> scalar = broadcast(pixels[m / 3] + m % 3 * stride + at);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) accumulate_in(sums[m][n], scalar, vectors[n]);
  }
}

// `Steps` steps of a run, and its pointers behind them. A tile of one vector has no load to spare for fetching early.
template <int Steps, int First, int Last, class T, int M, int N>
POLYCONV_INLINE void add_steps(const DenseTile<T> &t, const T *(&pixels)[(M + 2) / 3], int64_t stride,
                               const T *&weights, DenseAhead<T> &ahead, Vector<T> (&sums)[M][N]) {
  if constexpr (N > 1) {
#pragma GCC unroll 2
    for (int i = 0; i < Steps; i += 4, ahead.source += (Steps > 1 ? 4 : 1) * t.source_ahead_step)
      __builtin_prefetch(ahead.source);
    __builtin_prefetch(ahead.weights, 0, 2);
    ahead.weights += Steps * t.weights_ahead_step;
  }
#pragma GCC unroll 8
  for (int i = 0; i < Steps; ++i, weights += kDensePanel<T>) add_step<First, Last>(pixels, i, stride, weights, sums);
#pragma GCC unroll 8
  for (const T *&pixel : pixels) pixel += Steps;
}

// One run, for pixels [First, Last) of the tile. Pointers to every third pixel keep the addresses in few registers.
template <int First, int Last, class T, int M, int N>
POLYCONV_INLINE void add_run(const DenseTile<T> &t, const DenseRun<T> &run, DenseAhead<T> &ahead,
                             Vector<T> (&sums)[M][N]) {
  const T *pixels[(M + 2) / 3];
#pragma GCC unroll 8
  for (int i = 0; i < (M + 2) / 3; ++i) pixels[i] = run.source + (t.column + 3 * i) * t.pixel_stride;
  const T *weights = t.weights + run.weights;
  int64_t left = run.steps, stride = t.pixel_stride;
  for (; left >= kDenseSteps; left -= kDenseSteps) {
    // A stride that may change in each round: else gcc keeps a register for each step's offset, and spills them.
    if constexpr (kDenseSteps > 1) __asm__("" : "+r"(stride));
    add_steps<kDenseSteps, First, Last>(t, pixels, stride, weights, ahead, sums);
  }
  if constexpr (kDenseSteps > 1)
    for (; left > 0; --left) add_steps<1, First, Last>(t, pixels, stride, weights, ahead, sums);
}

template <class T, int N>
POLYCONV_INLINE void add_to_chain(const T *source, const T *weights, Vector<T> (&sums)[N]) {
  const Vector<T> scalar = broadcast(source);
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) sums[n] = accumulate(sums[n], scalar, load(weights + n * kLanes<T>));
}

// All runs of a tile of one pixel, which would wait for its own sums: step after step goes to another of a few chains
// of them, which are added at the end. Nothing is fetched early: weights are one stream, which the core follows by
// itself.
template <class T, int N>
POLYCONV_INLINE void add_in_chains(const DenseTile<T> &t, Vector<T> (&sums)[N]) {
  constexpr int kChains = 4;
  Vector<T> chains[kChains][N] = {};
  for (int64_t i = 0; i < t.run_count; ++i) {
    const DenseRun<T> &run = t.runs[i];
    if (t.column < run.inside.first || t.column >= run.inside.last) continue;
    const T *source = run.source + t.column * t.pixel_stride, *weights = t.weights + run.weights;
    int64_t left = run.steps;
    for (; left >= kChains; left -= kChains, source += kChains, weights += kChains * kDensePanel<T>)
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) add_to_chain(source + c, weights + c * kDensePanel<T>, chains[c]);
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c)
      if (c < left) add_to_chain(source + c, weights + c * kDensePanel<T>, chains[c]);
  }
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n)
    sums[n] = plus(sums[n], plus(plus(chains[0][n], chains[1][n]), plus(chains[2][n], chains[3][n])));
}

// Of the tile's last vector as many lanes as exist.
template <class T, int N>
POLYCONV_INLINE Vector<T> load_last(const T *p, int n, int rest) {
  return n == N - 1 && rest ? load_partial(p, rest) : load(p);
}

template <class T, int M, int N>
POLYCONV_INLINE void store_tile(const DenseTile<T> &t, Vector<T> (&sums)[M][N]) {
  if constexpr (sizeof(T) == 4) {
    if (t.bias)
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const Vector<T> bias = load_last<T, N>(t.bias + n * kLanes<T>, n, t.rest);
#pragma GCC unroll 32
        for (int m = 0; m < M; ++m) sums[m][n] = plus(sums[m][n], bias);
      }
    if (t.residual)
#pragma GCC unroll 32
      for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n)
          sums[m][n] = plus(sums[m][n], load_last<T, N>(t.residual + m * t.residual_row + n * kLanes<T>, n, t.rest));
    if (t.lowest) {
      const Vector<T> lowest = splat(*t.lowest); // a number that is loaded, since 0 makes two instructions of it
      for_sums(sums, [&](Vector<T> v) { return v < lowest ? lowest : v; }); // NaN stays
    }
    if (t.highest) {
      const Vector<T> highest = splat(*t.highest);
      for_sums(sums, [&](Vector<T> v) { return v > highest ? highest : v; });
    }
    if constexpr (static_cast<T>(0.5) != 0)
      if (t.hard_swish) for_sums(sums, [](F32 v) { return activate(v, POLYCONV_ACT_HARD_SWISH, F32{}); });
  }
  char *row = static_cast<char *>(t.result);
#if defined(POLYCONV_DOTS)
  if constexpr (sizeof(T) == 4 && static_cast<T>(0.5) != 0)
    if (t.bf16_result) {
#pragma GCC unroll 32
      for (int m = 0; m < M; ++m, row += t.result_row)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
          bf16 *to = reinterpret_cast<bf16 *>(row) + n * kLanes<T>;
          if (n == N - 1 && t.rest)
            store_narrow(to, sums[m][n], t.rest);
          else
            store_narrow(to, sums[m][n]);
        }
      return;
    }
#endif
  if (t.stream) {
#pragma GCC unroll 32
    for (int m = 0; m < M; ++m, row += t.result_row)
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) store_past_cache(reinterpret_cast<T *>(row) + n * kLanes<T>, sums[m][n]);
    return;
  }
  if constexpr (sizeof(T) == 4)
    if (t.rest) {
#pragma GCC unroll 32
      for (int m = 0; m < M; ++m, row += t.result_row) {
        T *to = reinterpret_cast<T *>(row);
        if constexpr (N == 2) store(to, sums[m][0]);
        store_partial(to + (N - 1) * kLanes<T>, sums[m][N - 1], t.rest);
      }
      return;
    }
#pragma GCC unroll 32
  for (int m = 0; m < M; ++m, row += t.result_row)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store(reinterpret_cast<T *>(row) + n * kLanes<T>, sums[m][n]);
}

// A run has all pixels of the tile inside the input, all but the first, all but the last, or none.
template <class T, int M, int N>
POLYCONV_NOINLINE void multiply_tile(const DenseTile<T> &t) {
  Vector<T> sums[M][N];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sums[m][n] = t.start ? load(t.start + m * t.start_stride + n * kLanes<T>) : Vector<T>{};
  if (!t.stream)
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
      for (int n = 0; n < N; n += kLineVectors)
        __builtin_prefetch(static_cast<char *>(t.result) + m * t.result_row + n * kVectorBytes, 1);
  if (t.residual)
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
      for (int n = 0; n < N; n += kLineVectors) __builtin_prefetch(t.residual + m * t.residual_row + n * kLanes<T>);
  DenseAhead<T> ahead = {t.source_ahead, t.weights_ahead};
  if constexpr (M == 1)
    if (t.chains) {
      add_in_chains(t, sums[0]);
      return store_tile(t, sums);
    }
  for (int64_t i = 0; i < t.run_count; ++i) {
    const DenseRun<T> &run = t.runs[i];
    const int64_t begin = t.column, end = begin + M;
    if (run.inside.first <= begin && end <= run.inside.last)
      add_run<0, M>(t, run, ahead, sums);
    else if (run.inside.first >= end || run.inside.last <= begin)
      continue;
    else if (run.inside.first > begin)
      add_run<1, M>(t, run, ahead, sums);
    else
      add_run<0, M - 1>(t, run, ahead, sums);
  }
  store_tile(t, sums);
}

// `count` such tiles: what a call and its caller do by the way would be half of a tile of few steps.
template <class T, int M, int N>
POLYCONV_NOINLINE void dense_tile(DenseTile<T> &t) {
  do {
    multiply_tile<T, M, N>(t);
    if (M == 1 && t.panel_weights)
      t.advance_panel();
    else
      t.advance(M);
  } while (--t.count > 0);
}

// Tiles of 1 to kDensePixels pixels; of none, as empty tensors have, nothing.
template <class T, int N>
POLYCONV_INLINE void dense_tile_of(int64_t pixels, DenseTile<T> &t) {
  if (pixels > 0) with_size<kDensePixels>(pixels, [&](auto m) { dense_tile<T, m.value, N>(t); });
}

} // namespace polyconv::cpu::POLYCONV_ISA
