// depthwise_weights.cpp - weight gradients of one channel a group and one filter of each, channels side by side:
// vectors of channels, up to ten taps' sums in registers, source pixels found by a table. Every float type and padding
// mode; along W kernels of any width at stride 1 or 2, not dilated, along H and D any.
//
// Floor: one read of input and gradient; a 3x3 has 9 multiply-adds for each result, 4.5 cycles, for 10 loads.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/finish.hpp"
#include "cpu/common/load.hpp"
#include "cpu/common/pixels.hpp"
#include "cpu/common/transpose.hpp"
#include "cpu/common/types.hpp"
#include "cpu/depthwise/weights_plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// A unit as a vector of channels sees it.
template <class From, class T>
struct DepthwiseWeightsTile {
  const From *const *pixels;  // the table, from the first tap on
  int64_t row_step, tap_step; // entries of the table between rows of results, and of taps
  const From *gradient;       // of the first pixel
  int64_t gradient_row, gradient_column, rows, columns;
  T *sums;                     // of the first tap
  int64_t sums_row, sums_line; // from tap to tap, and from line of taps to line
  // What the next unit reads, in memory's order, brought into the second cache meanwhile; NULL where there is no need.
  const char *ahead, *ahead_gradient;
};

// Columns [First, K) of the J lines that J * K taps of a result see.
template <class From, class T, int J, int K, int First, bool Whole>
POLYCONV_INLINE void load_columns(const From *const *pixels, int64_t line, int64_t c, int count,
                                  Vector<T> (&source)[J][K]) {
  const Load<From, T> convert(0);
#pragma GCC unroll 4
  for (int j = 0; j < J; ++j)
#pragma GCC unroll 8
    for (int k = First; k < K; ++k) {
      const From *p = pixels[j * line + k] + c;
      source[j][k] = Whole ? convert.full(p) : convert.partial(p, count);
    }
}

// Adds a unit to the sums of J lines of K taps, of up to a vector of channels from c on. Where there are registers
// enough, a source column stays for all taps that see it.
// Floor: J * K multiply-adds a pixel, for J * Step loads of the source (else J * K), as many of pointers, and one.
template <class From, class T, int J, int K, int Step, bool Whole>
POLYCONV_NOINLINE void depthwise_taps(const DepthwiseWeightsTile<From, T> &t, int64_t c, int count) {
  constexpr int64_t kBytes = kLanes<T> * static_cast<int64_t>(sizeof(From));
  constexpr int kKept = kManyRegisters && K > Step ? K - Step : 0;
  const Load<From, T> convert(0);
  T *const to = t.sums + c; // rows of sums are whole vectors
  Vector<T> sums[J * K], source[J][K];
#pragma GCC unroll 16
  for (int i = 0; i < J * K; ++i) sums[i] = load(to + i / K * t.sums_line + i % K * t.sums_row);
  const char *ahead = t.ahead, *ahead_gradient = t.ahead_gradient;
  for (int64_t y = 0; y < t.rows; ++y) {
    const From *const *pixels = t.pixels + y * t.row_step;
    const From *gradient = t.gradient + y * t.gradient_row + c;
    if (kKept > 0) load_columns<From, T, J, K, Step, Whole>(pixels - Step, t.tap_step, c, count, source);
    for (int64_t x = 0; x < t.columns; ++x, gradient += t.gradient_column, pixels += Step) {
      if (ahead) {
#pragma GCC unroll 4
        for (int i = 0; i < Step * Step; ++i, ahead += kBytes) __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead_gradient, 0, 2);
        ahead_gradient += kBytes;
      }
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j)
#pragma GCC unroll 8
        for (int k = 0; k < kKept; ++k) source[j][k] = source[j][k + Step];
      load_columns<From, T, J, K, kKept, Whole>(pixels, t.tap_step, c, count, source);
      const Vector<T> v = Whole ? convert.full(gradient) : convert.partial(gradient, count);
#pragma GCC unroll 16
      for (int i = 0; i < J * K; ++i) sums[i] = multiply_add(loaded(source[i / K][i % K]), v, sums[i]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < J * K; ++i) store(to + i / K * t.sums_line + i % K * t.sums_row, sums[i]);
}

// K neighbouring taps of all lines of taps of one tap of D, J lines or fewer at a time: as many as hide the latency of
// the multiply-adds and fit the registers of every instruction set.
template <class From, class T, int J, int K, bool Whole>
POLYCONV_INLINE void depthwise_lines(DepthwiseWeightsTile<From, T> t, int64_t lines, bool two, int64_t c, int count) {
  for (; lines >= J; lines -= J) {
    two ? depthwise_taps<From, T, J, K, 2, Whole>(t, c, count) : depthwise_taps<From, T, J, K, 1, Whole>(t, c, count);
    t.pixels += J * t.tap_step, t.sums += J * t.sums_line, t.ahead = nullptr;
  }
  if constexpr (J > 1) depthwise_lines<From, T, 1, K, Whole>(t, lines, two, c, count);
}

// As many of a line's taps at a time as `width` says.
template <class From, class T, bool Whole>
POLYCONV_INLINE void depthwise_columns(const DepthwiseWeightsTile<From, T> &t, int64_t width, int64_t lines, bool two,
                                       int64_t c, int count) {
  switch (width) {
    case 1: return depthwise_lines<From, T, 4, 1, Whole>(t, lines, two, c, count);
    case 2: return depthwise_lines<From, T, 4, 2, Whole>(t, lines, two, c, count);
    case 3: return depthwise_lines<From, T, 3, 3, Whole>(t, lines, two, c, count);
    case 4: return depthwise_lines<From, T, 2, 4, Whole>(t, lines, two, c, count);
    default: return depthwise_lines<From, T, 2, 5, Whole>(t, lines, two, c, count);
  }
}

// A unit, for up to a vector of channels from c on. Lines of more than kWidest taps go in pieces of nearly equal width.
template <class From, class T, bool Whole>
POLYCONV_INLINE void depthwise_vector(const DepthwiseWeightsPlan &p, DepthwiseWeightsTile<From, T> t, int64_t c,
                                      int count) {
  constexpr int64_t kWidest = 5;
  const From *const *pixels = t.pixels;
  T *const sums = t.sums;
  const int64_t taps = p.axis[2].taps, lines = p.axis[1].taps;
  const int64_t pieces = taps <= kWidest ? 1 : (taps + kWidest - 1) / kWidest; // most have one: divisions would show
  for (int64_t d = 0; d < p.axis[0].taps; ++d)
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t first = pieces == 1 ? 0 : i * taps / pieces, end = pieces == 1 ? taps : (i + 1) * taps / pieces;
      t.pixels = pixels + d * p.lines * p.line_pixels + first;
      t.sums = sums + d * lines * t.sums_line + first * t.sums_row;
      depthwise_columns<From, T, Whole>(t, end - first, lines, p.axis[2].step == 2, c, count);
      t.ahead = nullptr;
    }
}

// Writes down where the source pixels of a unit lie: `rows` rows of results from `at` on.
template <class From>
POLYCONV_INLINE void list_unit(const DepthwiseWeightsPlan &p, const void *input, const Row &at, int64_t rows,
                               const From **table) {
  const Axis &depth = p.axis[0], &height = p.axis[1], &width = p.axis[2];
  const From *image = static_cast<const From *>(input) + p.input.offset + at.n * p.input.stride[0];
  const int64_t used = (rows - 1) * height.step + (height.taps - 1) * height.dilation + 1;
  for (int64_t i = 0; i < depth.taps; ++i)
    for (int64_t j = 0; j < used; ++j) {
      const int64_t d = inside(depth, at.d * depth.step + i * depth.dilation - depth.before);
      const int64_t h = inside(height, at.h * height.step + j - height.before);
      const bool padding = d < 0 || h < 0;
      list_pixels(width, padding ? nullptr : image + d * p.input.stride[2] + h * p.input.stride[3], p.input.stride[4],
                  static_cast<const From *>(p.padding), at.w * width.step - width.before, p.line_pixels,
                  table + (i * p.lines + j) * p.line_pixels);
    }
}

// Where the unit at `at` ends in both tensors: there the next one begins to read.
template <class From, class T>
POLYCONV_INLINE void set_ahead(const DepthwiseWeightsPlan &p, const DepthwiseWeightsRun &r, const Row &at,
                               DepthwiseWeightsTile<From, T> &tile) {
  const int64_t row = at.h * p.axis[1].step - p.axis[1].before + p.lines;
  const From *input = static_cast<const From *>(r.input) + p.input.offset + at.n * p.input.stride[0];
  tile.ahead = reinterpret_cast<const char *>(input + at.d * p.input.stride[2] + row * p.input.stride[3]);
  tile.ahead_gradient = reinterpret_cast<const char *>(tile.gradient + p.rows * tile.gradient_row);
}

template <class From, class T>
POLYCONV_NOINLINE void depthwise_weights_share(const DepthwiseWeightsPlan &p, const DepthwiseWeightsRun &r,
                                               const DepthwiseWeightsShare &share) {
  constexpr int64_t kL = kLanes<T>;
  const From **table = static_cast<const From **>(share.table);
  T *sums = static_cast<T *>(r.sums) + share.split * p.split_elements;
  const int64_t vectors = (p.channels + kL - 1) / kL;
  const int64_t first = share.part * vectors / p.parts * kL, end = (share.part + 1) * vectors / p.parts * kL;
  for (int64_t tap = 0; tap < p.taps; ++tap)
    for (int64_t c = first; c < end; c += kL) store(sums + tap * p.row_stride + c, Vector<T>{});
  const int64_t last = (share.split + 1) * p.units / p.splits;
  for (int64_t unit = share.split * p.units / p.splits; unit < last; ++unit) {
    const int64_t h = unit / p.chunks % p.row_groups * p.rows, plane = unit / p.chunks / p.row_groups;
    const int64_t w = unit % p.chunks * p.chunk, rows = p.axis[1].out - h, columns = p.axis[2].out - w;
    const Row at = {plane / p.axis[0].out, 0, plane % p.axis[0].out, h, w, 1};
    DepthwiseWeightsTile<From, T> tile = {table,
                                          p.axis[1].step * p.line_pixels,
                                          p.axis[1].dilation * p.line_pixels,
                                          static_cast<const From *>(r.gradient) + row_offset(p.gradient, at),
                                          p.gradient.stride[3],
                                          p.gradient.stride[4],
                                          rows < p.rows ? rows : p.rows,
                                          columns < p.chunk ? columns : p.chunk,
                                          sums,
                                          p.row_stride,
                                          p.axis[2].taps * p.row_stride,
                                          nullptr,
                                          nullptr};
    list_unit(p, r.input, at, tile.rows, table);
    if (p.ahead && unit + 1 < p.units) set_ahead(p, r, at, tile);
    const int64_t pixels = tile.rows * tile.columns * kL * static_cast<int64_t>(sizeof(From));
    for (int64_t c = first; c < end; c += kL) {
      const int64_t left = p.channels - c;
      if (left >= kL)
        depthwise_vector<From, T, true>(p, tile, c, static_cast<int>(kL));
      else
        depthwise_vector<From, T, false>(p, tile, c, static_cast<int>(left));
      if (tile.ahead) tile.ahead += pixels * p.axis[1].step * p.axis[2].step, tile.ahead_gradient += pixels;
    }
  }
}

// Whether all taps of a channel lie side by side, in order.
POLYCONV_INLINE bool taps_side_by_side(const polyconv_tensor &w) {
  int64_t behind = 1;
  for (int axis = 4; axis > 1; behind *= w.size[axis--])
    if (w.size[axis] > 1 && w.stride[axis] != behind) return false;
  return true;
}

// Where a tap's weight of channel 0 lies.
POLYCONV_INLINE int64_t tap_offset(const polyconv_tensor &w, int64_t tap) {
  const int64_t y = tap / w.size[4];
  return w.offset + y / w.size[3] * w.stride[2] + y % w.size[3] * w.stride[3] + tap % w.size[4] * w.stride[4];
}

// Adds the splits' sums of kDepthwiseJoin channels from c on in order, and stores their weights: squares of channels
// and taps are turned, so that the taps of a channel leave together. The last taps of many overlap those before, for
// whole vectors: AMD's cores break a masked store of AVX2 into some 40 operations (uops.info, VMASKMOVPS on Zen 3).
template <class T>
POLYCONV_NOINLINE void depthwise_weights_join(const DepthwiseWeightsPlan &p, const DepthwiseWeightsRun &r, int64_t c) {
  constexpr int kL = kLanes<T>;
  const polyconv_tensor &w = p.weights;
  const bool side_by_side = taps_side_by_side(w);
  const bool plain = side_by_side && w.type == (sizeof(T) == 8 ? POLYCONV_F64 : POLYCONV_F32);
  const int64_t end = p.channels < c + kDepthwiseJoin ? p.channels : c + kDepthwiseJoin;
  for (; c < end; c += kL)
    for (int64_t next = 0; next < p.taps; next += kL) {
      const int64_t left = p.taps - next, tap = left < kL && p.taps >= kL ? p.taps - kL : next;
      const int taps = p.taps < kL ? static_cast<int>(p.taps) : kL;
      Vector<T> square[kL];
      for (int i = 0; i < kL; ++i) {
        square[i] = Vector<T>{};
        if (i >= taps) continue;
        T *sums = static_cast<T *>(r.sums) + (tap + i) * p.row_stride + c;
        square[i] = load(sums);
        if (p.splits == 1 || tap + i < next) continue; // added already
        for (int64_t split = 1; split < p.splits; ++split) square[i] += load(sums + split * p.split_elements);
        store(sums, square[i]);
      }
      const int lanes = end - c < kL ? static_cast<int>(end - c) : kL;
      if (plain && p.taps == 1 && w.stride[0] == 1) {
        store_partial(static_cast<T *>(r.weights) + w.offset + c, square[0], lanes);
        continue;
      }
      transpose<T>(square);
      if (plain) {
        T *to = static_cast<T *>(r.weights) + c * w.stride[0] + tap_offset(w, tap);
        for (int lane = 0; lane < lanes; ++lane, to += w.stride[0])
          taps == kL ? store(to, square[lane]) : store_partial(to, square[lane], taps);
        continue;
      }
      T values[2 * kL] = {}; // scatter reads whole vectors, from any of the first lanes on
      for (int lane = 0; lane < lanes; ++lane) {
        const int64_t to = (c + lane) * w.stride[0];
        store(values, square[lane]);
        if (side_by_side)
          scatter_typed(w.type, r.weights, to + tap_offset(w, tap), 1, taps, values);
        else
          for (int i = 0; i < taps; ++i)
            scatter_typed(w.type, r.weights, to + tap_offset(w, tap + i), 1, 1, values + i);
      }
    }
}

void depthwise_weights_sum(const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run,
                           const DepthwiseWeightsShare &share) {
  switch (plan.input.type) {
    case POLYCONV_F64: return depthwise_weights_share<double, double>(plan, run, share);
    case POLYCONV_F16: return depthwise_weights_share<f16, float>(plan, run, share);
    case POLYCONV_BF16: return depthwise_weights_share<bf16, float>(plan, run, share);
    default: return depthwise_weights_share<float, float>(plan, run, share);
  }
}

void depthwise_weights_end(const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run, int64_t channel) {
  if (plan.input.type == POLYCONV_F64)
    depthwise_weights_join<double>(plan, run, channel);
  else
    depthwise_weights_join<float>(plan, run, channel);
}

} // namespace polyconv::cpu::POLYCONV_ISA
