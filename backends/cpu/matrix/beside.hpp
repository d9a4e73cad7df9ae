// beside.hpp - what is done beside the products, a little with each of them, while the units for tiles work: lines that
// are read next come into the caches, and pixels that are multiplied next are taken apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/matrix/results.hpp"
#include "cpu/matrix/strip.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// What one task works with.
template <class P>
struct MatrixTask {
  typedef typename P::From From;
  typedef typename P::Sum Sum;
  const MatrixPlan &p;
  const LayerRun &arguments;
  char *strip;
  Sum *sums;           // of two turns: kMatrixSums of each panel whose results are made together
  const From *in;      // the group's first channel
  const char *weights; // the group's first panel
  int64_t group;
};

// A block whose source is where tiles are loaded from.
struct MatrixSource {
  MatrixBlock block;
  const char *first, *tail; // position 0; where the last lie, less than a tile of them, or NULL
  int64_t positions, whole; // in all, and from `first` on
};

POLYCONV_INLINE int64_t tiles_of(const MatrixSource *sources, int64_t count) {
  int64_t tiles = 0;
  for (const MatrixSource *s = sources; s < sources + count; ++s)
    tiles += (s->positions + kMatrixPositions - 1) / kMatrixPositions;
  return tiles;
}

// ---------------------------------------------------------------- what may be done

// Memory that is read soon, brought into the L2 cache some lines at a time: doing so alone would wait for memory, and
// multiplying alone leave it idle.
struct MatrixLines {
  const char *at, *end;
  int64_t lines; // at a time

  POLYCONV_MEMBER void fetch() {
    for (int64_t i = 0; i < lines && at < end; ++i, at += kMatrixRowBytes) __builtin_prefetch(at, 0, 2);
  }
};

// Lines that a tile's sums will be stored to, asked for while it is multiplied: a store whose line is far away would
// hold up those behind it.
struct MatrixWritten {
  const char *at;
  int64_t row, lines, left, some; // bytes to the next position; lines of one; positions to come, with each product

  POLYCONV_MEMBER void fetch() {
    for (int64_t i = 0; i < some && left > 0; ++i, --left, at += row)
      for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(at + line * kMatrixRowBytes, 1);
  }
};

// Pixels that lie at one stride, with whole chunks of channels side by side, on their way into a strip.
template <class P>
struct MatrixSplitting {
  const typename P::From *from; // the next chunk
  char *to;
  int64_t left, chunk; // chunks to come, of all pixels; number of the next in its pixel
  int64_t some;        // at a time

  POLYCONV_MEMBER void split(const MatrixPlan &p, int64_t count) {
    for (; count > 0 && left > 0; --count, --left) {
      const char *const later = reinterpret_cast<const char *>(from) + kMatrixFetched;
      __builtin_prefetch(later, 0, 2);
      if constexpr (sizeof *from == 4) __builtin_prefetch(later + kMatrixRowBytes, 0, 2);
      store_chunk<P>(from, P::kChannels, to, p.part_bytes);
      from += P::kChannels, to += p.chunk_bytes;
      if (++chunk < p.chunks) continue;
      chunk = 0;
      from += p.input.stride[4] - p.channels, to += kMatrixRowBytes - p.chunks * p.chunk_bytes;
    }
  }
};

// Results of f32 with at most a bias and relu, of the whole panel of a tile that is done: all at once, stores that pass
// the caches would fill the store buffer and hold up the next tile.
struct MatrixRows {
  const float *sums; // NULL: none
  float *to;
  const float *bias;
  int64_t step, left, some; // elements to the next row; rows to come, at a time
  bool relu, stream;
  float zeros[kF32Lanes]; // 0 times all sums: NaN where one is not finite

  POLYCONV_MEMBER void make(int64_t count) {
    for (; count > 0 && left > 0; --count, --left, sums += kMatrixPanel, to += step)
      for (int c = 0; c < kMatrixPanel; c += 2 * kF32Lanes) {
        F32 x0 = load(sums + c), x1 = load(sums + c + kF32Lanes);
        store(zeros, multiply_add(x0, F32{}, multiply_add(x1, F32{}, load(zeros))));
        if (bias) x0 += load(bias + c), x1 += load(bias + c + kF32Lanes);
        if (relu) x0 = x0 < F32{} ? F32{} : x0, x1 = x1 < F32{} ? F32{} : x1; // NaN stays
        stream ? store_two<true>(to + c, x0, x1) : store_two<false>(to + c, x0, x1);
      }
  }
  // Makes what is left; whether all results are made and stand.
  POLYCONV_MEMBER bool end() {
    if (!sums) return false;
    make(left);
    return is_zero(load(zeros));
  }
};

template <class P>
constexpr bool kBf16Only = P::kParts == 1 && sizeof(typename P::From) == 2;

template <class P>
struct MatrixBeside {
  const MatrixPlan &p;
  MatrixLines input;
  MatrixSplitting<P> splitting;
  MatrixRows rows;
  MatrixWritten written;
  MatrixResults results;

  POLYCONV_MEMBER void with_chunk() { input.fetch(); }
  POLYCONV_MEMBER void with_product() {
    if constexpr (P::kParts == 1) written.fetch();
    if constexpr (kBf16Only<P>) results.make(results.some);
  }
  POLYCONV_MEMBER void with_step() {
    if constexpr (P::kParts > 1) {
      splitting.split(p, splitting.some);
      rows.make(rows.some);
    }
  }
};

// ---------------------------------------------------------------- what is to be done

// What `blocks` blocks from `unit` on read and those before did not, spread over `tiles` tiles; channels last only.
template <class P>
POLYCONV_INLINE MatrixLines next_input(const MatrixTask<P> &task, int64_t unit, int64_t last, int64_t blocks,
                                       int64_t tiles) {
  const MatrixPlan &p = task.p;
  const polyconv_tensor &t = p.input;
  if (t.stride[1] != 1 || unit >= last) return {};
  int64_t units = blocks * p.block_lines;
  if (units > last - unit) units = last - unit;
  const typename P::From *at, *end;
  if (p.flat) {
    if (!p.one_stride) return {};
    const int64_t pixels = p.axis[0].out * p.axis[1].out * p.axis[2].out;
    const auto pixel = [&](int64_t i) { return task.in + i / pixels * t.stride[0] + i % pixels * t.stride[4]; };
    at = pixel(unit), end = pixel(unit + units - 1) + t.stride[4];
  } else {
    const Axis &h = p.axis[1];
    if (h.in == 0 || p.axis[0].taps > 1) return {};
    const auto row = [&](int64_t y, int64_t i) {
      y = y < 0 ? 0 : y > h.in ? h.in : y;
      return task.in + i / p.lines / p.depths * t.stride[0] + i / p.lines % p.depths * t.stride[2] + y * t.stride[3];
    };
    const int64_t first = unit % p.lines, reach = (h.taps - 1) * h.dilation + 1 - h.before;
    const int64_t end_unit = unit + units - 1;
    at = row(first == 0 ? 0 : (first - 1) * h.step + reach, unit);
    end = row(end_unit % p.lines * h.step + reach, end_unit);
  }
  const int64_t bytes = (end - at) * static_cast<int64_t>(sizeof *at);
  if (bytes <= 0 || tiles == 0) return {};
  return {reinterpret_cast<const char *>(at), reinterpret_cast<const char *>(end),
          bytes / kMatrixRowBytes / (tiles * p.chunks * p.tap_count) + 1};
}

// What brings `source` in while `tiles` tiles are multiplied.
template <class P>
POLYCONV_INLINE MatrixSplitting<P> splitting(const MatrixTask<P> &task, const MatrixSource &source, int64_t tiles) {
  const MatrixPlan &p = task.p;
  const polyconv_tensor &t = p.input;
  const typename P::From *from = task.in + source.block.image * t.stride[0] + source.block.line * t.stride[4];
  const int64_t items = source.positions * p.chunks, steps = tiles * p.chunks * kStepsOf<P>;
  return {from, const_cast<char *>(source.first), items, 0, (items + steps - 1) / steps};
}

} // namespace polyconv::cpu::POLYCONV_ISA
