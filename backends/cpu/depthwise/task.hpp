// task.hpp - one task of depthwise convolution with channels side by side: groups of rows of results, chunks of
// columns, blocks of channels, sweeps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/pixels.hpp"
#include "cpu/common/types.hpp"
#include "cpu/depthwise/nine.hpp"
#include "cpu/depthwise/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// A group of rows of one image, and a chunk of its columns.
template <class From, class T>
struct DepthwiseGroup {
  const DepthwisePlan &plan;
  const LayerRun &run;
  const From **pixels;
  T *sums;
  Row at; // the first result
  int64_t rows, columns;
  const From *ahead;   // the first source row to be fetched early: of the group below, or of this one where it walks
  DepthwiseLine *taps; // of the table's rows
  int64_t lines;       // of the table
};

// The source rows of a group, in order of the taps of D and H.
template <class From, class T>
POLYCONV_INLINE void list_lines(DepthwiseGroup<From, T> &group) {
  const DepthwisePlan &p = group.plan;
  const Axis &depth = p.axis[0], &height = p.axis[1];
  const From *image = static_cast<const From *>(group.run.input) + p.input.offset + group.at.n * p.input.stride[0];
  const From **line = group.pixels;
  group.lines = 0;
  // Those beyond are read by rows of results that do not exist.
  const int64_t used = (group.rows - 1) * height.step + height.taps;
  for (int64_t i = 0; i < depth.taps; ++i)
    for (int64_t j = 0; j < p.lines; ++j) {
      const int64_t y = group.at.h * height.step + j * (p.square ? 1 : height.dilation) - height.before;
      const int64_t d = inside(depth, group.at.d * depth.step + i * depth.dilation - depth.before);
      const int64_t h = j < used ? inside(height, y) : -1;
      const bool padding = d < 0 || h < 0;
      if (padding && p.skips) continue;
      const int64_t taps = i * height.taps, second = p.tile_rows > 1 ? j - height.step : -1;
      group.taps[group.lines++] = {static_cast<int32_t>(j < height.taps ? taps + j : -1),
                                   static_cast<int32_t>(second >= 0 ? taps + second : -1)};
      list_pixels(p.axis[2], padding ? nullptr : image + d * p.input.stride[2] + h * p.input.stride[3],
                  p.input.stride[4], static_cast<const From *>(p.padding),
                  group.at.w * p.axis[2].step - p.axis[2].before, p.line_pixels, line);
      line += p.line_pixels;
    }
}

// The types of networks are worth their code; f64 and u16 make do with the loop of any shape.
template <class From>
struct Unrolled {
  static constexpr bool value = sizeof(From) != 8;
};
template <>
struct Unrolled<uint16_t> {
  static constexpr bool value = false;
};

// One vector of channels of a chunk of columns, as many rows as a group has.
template <class From, class T, int K, int Step>
POLYCONV_INLINE void sweep_rows(int64_t rows, const DepthwiseTile<From, T> &tile, int64_t c,
                                const DepthwiseStore<T> &to) {
  if constexpr (kManyRegisters) {
    // 21 sums, 9 weights and a source vector: every register.
    if constexpr (K == 3 && (sizeof(From) == 4 || kNarrow<From>))
      if (rows == kDepthwiseTall) return depthwise_sweep<From, T, K, Step, kDepthwiseTall>(tile, c, to);
    if (rows == kDepthwiseRows) return depthwise_sweep<From, T, K, Step, kDepthwiseRows>(tile, c, to);
  }
  depthwise_sweep<From, T, K, Step, kDepthwiseFew>(tile, c, to);
}
template <class From, class T>
POLYCONV_INLINE void sweep(const DepthwisePlan &p, const DepthwiseTile<From, T> &tile, int64_t c,
                           const DepthwiseStore<T> &to) {
  const bool two = p.axis[2].step == 2;
  if (p.square == 3)
    two ? sweep_rows<From, T, 3, 2>(p.tile_rows, tile, c, to) : sweep_rows<From, T, 3, 1>(p.tile_rows, tile, c, to);
  else
    two ? sweep_rows<From, T, 5, 2>(p.tile_rows, tile, c, to) : sweep_rows<From, T, 5, 1>(p.tile_rows, tile, c, to);
}

// The columns from x on of a group that walks: 3 x 3 at stride 2.
template <class From, class T>
POLYCONV_INLINE void walk(const DepthwiseGroup<From, T> &group, const DepthwiseTile<From, T> &tile, int64_t x,
                          int64_t c, int64_t end, const DepthwiseStore<T> &to) {
  const DepthwisePlan &p = group.plan;
  const int64_t column = p.input.stride[4], skipped = (group.at.w + x) * p.axis[2].step;
  const DepthwiseAhead<From> ahead = {group.ahead + skipped * column, p.input.stride[3],
                                      (p.axis[2].in - skipped) * column, column};
  depthwise_walk<From, T, 3, 2, kDepthwiseWalk>(tile, ahead, c, end, to);
}

// Columns from x on, channels from c on; of the rows below a part is fetched that is as large.
template <class From, class T>
POLYCONV_INLINE DepthwiseTile<From, T> tile_at(const DepthwiseGroup<From, T> &group, int64_t x, int64_t columns,
                                               int64_t c) {
  const DepthwisePlan &p = group.plan;
  const int64_t step = p.axis[2].step, skipped = (group.at.w + x) * step * p.input.stride[4];
  return {group.pixels + x * step,
          p.line_pixels,
          static_cast<const T *>(group.run.weights),
          p.row_stride,
          p.zero_point,
          group.ahead ? group.ahead + skipped + (p.square ? c * columns * step : 0) : nullptr,
          p.input.stride[3],
          p.input.stride[4]};
}

// The types that networks are made of have tiles of all widths, and of two rows at once: f32, and bf16 in the pass
// whose kernel is for it.
#if defined(__AVX512BF16__)
template <class From>
constexpr bool kEveryTile = sizeof(From) == 4 || __is_same(From, bf16);
#else
template <class From>
constexpr bool kEveryTile = sizeof(From) == 4;
#endif

// A tile of any kernel, as wide as the plan says.
template <int P, class From, class T>
POLYCONV_INLINE void filter_row(const DepthwiseGroup<From, T> &group, const DepthwiseTile<From, T> &tile, int64_t c,
                                int64_t end, const DepthwiseStore<T> &to) {
  const Axis &w = group.plan.axis[2];
  const DepthwiseRows rows = {group.taps, group.lines};
  if constexpr (kManyRegisters && kEveryTile<From> && P != kDepthwiseColumns)
    if (group.plan.tile_rows == kDepthwisePair)
      return w.step == 2 ? depthwise_pair<P, 2>(tile, rows, w, c, end, to)
                         : depthwise_pair<P, 1>(tile, rows, w, c, end, to);
  w.step == 2 ? depthwise_any<true, P, 2>(tile, rows, w, c, end, to)
              : depthwise_any<true, P, 1>(tile, rows, w, c, end, to);
}
template <int P, class T>
POLYCONV_INLINE void filter_twins(const DepthwiseTile<T, T> &tile, const DepthwiseRows &rows, const Axis &w, int64_t c,
                                  int64_t end, const DepthwiseStore<T> &to) {
  w.step == 2 ? depthwise_twins<P, 2>(tile, rows, w, c, end, to) : depthwise_twins<P, 1>(tile, rows, w, c, end, to);
}
template <class From, class T>
POLYCONV_INLINE void filter_any(const DepthwiseGroup<From, T> &group, const DepthwiseTile<From, T> &tile, int64_t c,
                                int64_t end, const DepthwiseStore<T> &to) {
  const Axis &w = group.plan.axis[2];
  const DepthwiseRows rows = {group.taps, group.lines};
  const bool whole = end - c >= kLanes<T>, near = group.plan.near != 0;
  if constexpr (kEveryTile<From>) {
    const int64_t columns = group.plan.tile_columns;
    if constexpr (!kManyRegisters && sizeof(From) == 4)
      if (group.plan.twins)
        return columns == kDepthwiseSeven ? filter_twins<kDepthwiseSeven>(tile, rows, w, c, end, to)
                                          : filter_twins<kDepthwiseColumns>(tile, rows, w, c, end, to);
    if (!whole && near && w.step == 1) return depthwise_any<false, kDepthwiseWide, 1>(tile, rows, w, c, end, to);
    if (whole && near && columns == kDepthwiseSeven) return filter_row<kDepthwiseSeven>(group, tile, c, end, to);
    if (whole && near && columns == kDepthwiseColumns) return filter_row<kDepthwiseColumns>(group, tile, c, end, to);
  }
  if constexpr (Unrolled<From>::value)
    if (whole && near) return filter_row<kDepthwiseWide>(group, tile, c, end, to);
  whole ? depthwise_any<true, kDepthwiseColumns, 0>(tile, rows, w, c, end, to)
        : depthwise_any<false, kDepthwiseColumns, 0>(tile, rows, w, c, end, to);
}

// 3 x 3 taps of channels [c, end), at least a vector of them. The last vector may overlap the one before.
POLYCONV_INLINE void filter_nine(const DepthwiseGroup<float, float> &group, int64_t x, int64_t columns, int64_t c,
                                 int64_t end, const DepthwiseStore<float> &to) {
  constexpr int64_t kL = kF32Lanes, kBytes = sizeof(float);
  const DepthwisePlan &p = group.plan;
  const Axis &h = p.axis[1], &w = p.axis[2];
  const int64_t *stride = p.input.stride;
  const int64_t row = group.at.h * h.step - h.before, column = (group.at.w + x) * w.step - w.before;
  const int32_t activation = to.rules ? to.rules->activation : POLYCONV_ACT_NONE;
  const float *source = static_cast<const float *>(group.run.input) + p.input.offset + group.at.n * stride[0] +
                        group.at.d * p.axis[0].step * stride[2] + row * stride[3] + column * stride[4];
  DepthwiseNine n = {};
  n.row = stride[3] * kBytes, n.pixel = stride[4] * kBytes, n.first = row, n.height = h.in, n.tap = p.row_stride;
  n.to_row = to.row * kBytes, n.to_column = to.column * kBytes;
  n.rows = group.rows, n.columns = columns;
  n.left = column<0, n.right = column + (columns - 1) * w.step + w.taps> w.in;
  n.relu = activation == POLYCONV_ACT_RELU || activation == POLYCONV_ACT_CLIPPED_RELU;
  n.highest = activation == POLYCONV_ACT_CLIPPED_RELU ? &to.rules->activation_alpha : nullptr;
  const bool again = activation != POLYCONV_ACT_NONE && !n.relu;
  n.stream = to.stream && !again;
  for (; c < end; c += kL) {
    const int64_t at = c < end - kL ? c : end - kL;
    n.source = reinterpret_cast<const char *>(source + at), n.to = reinterpret_cast<char *>(to.to + at);
    n.weights = static_cast<const float *>(group.run.weights) + at, n.bias = to.bias ? to.bias + at : nullptr;
    w.step == 2 ? depthwise_nine_of<kDepthwiseNineApart, 2>(n) : depthwise_nine_of<kDepthwiseNine, 1>(n);
    if (again) activate_nine(n, activation, to.rules->activation_alpha);
  }
}

// What depthwise_share does with channels [c, end), at least a vector of them, of `columns` columns from x on. The last
// vector may overlap the one before.
struct DepthwiseFilter {
  template <class From, class T>
  POLYCONV_MEMBER static void filter(const DepthwiseGroup<From, T> &group, int64_t x, int64_t columns, int64_t c,
                                     int64_t end, const DepthwiseStore<T> &to) {
    const DepthwisePlan &p = group.plan;
    const int64_t step = p.axis[2].step;
    if constexpr (!kManyRegisters && sizeof(From) == 4 && sizeof(T) == 4)
      if (p.nine) return filter_nine(group, x, columns, c, end, to);
    DepthwiseTile<From, T> tile = tile_at(group, x, columns, c);
    if constexpr (Unrolled<From>::value) {
      if (p.scales) return depthwise_scale(tile, step, group.lines == 0, c, end, to);
      if (p.square) {
        if constexpr (kManyRegisters && kEveryTile<From>)
          if (p.walks) return walk(group, tile, x, c, end, to);
        for (; c < end; c += kLanes<T>) {
          sweep(p, tile, c < end - kLanes<T> ? c : end - kLanes<T>, to);
          if (tile.ahead) tile.ahead += kLanes<T> * columns * step;
        }
        return;
      }
    }
    filter_any(group, tile, c, end, to);
  }
};

// Columns [x, x + tile_columns) of the group, channels [c, end).
template <class Filter, class From, class T>
POLYCONV_INLINE void filter_tile(const DepthwiseGroup<From, T> &group, int64_t x, int64_t c, int64_t end) {
  const DepthwisePlan &p = group.plan;
  const Epilogue &e = group.run.epilogue;
  const int64_t rest = group.columns - x, columns = rest < p.tile_columns ? rest : p.tile_columns;
  Row at = group.at;
  at.w += x;
  if (p.direct) {
    const int64_t offset = row_offset(e.result, at);
    T *to = kNarrow<From> && p.narrow ? reinterpret_cast<T *>(static_cast<From *>(e.output) + offset)
                                      : static_cast<T *>(e.output) + offset;
    return Filter::filter(group, x, columns, c, end,
                          {to, e.result.stride[3], e.result.stride[4], group.rows, columns,
                           static_cast<const T *>(e.bias), &e.rules, group.run.stream != 0, p.narrow != 0});
  }
  const int64_t column = kDepthwiseSums, row = p.tile_columns * column;
  Filter::filter(group, x, columns, c, end,
                 {group.sums - c, row, column, group.rows, columns, nullptr, nullptr, false});
  at.k = c;
  for (int64_t r = 0; r < group.rows; ++r, ++at.h) finish_rows(e, group.sums + r * row, column, columns, end - c, at);
}

// The first source row that the group of rows at `at` does not read: of the group below, or of the next image; NULL
// where there is none.
template <class From>
POLYCONV_INLINE const From *next_row(const DepthwisePlan &p, const LayerRun &r, const Row &at) {
  const polyconv_tensor &t = p.input;
  int64_t n = at.n, h = at.h * p.axis[1].step - p.axis[1].before + p.lines;
  if (h < 0) h = 0;
  if (h >= t.size[3]) ++n, h = 0;
  if (n == t.size[0]) return nullptr;
  return static_cast<const From *>(r.input) + t.offset + n * t.stride[0] + at.d * t.stride[2] + h * t.stride[3];
}

// The first source row that a group of rows that walks is the first to read; may lie beyond the tensor.
template <class From>
POLYCONV_INLINE const From *first_row(const DepthwisePlan &p, const LayerRun &r, const Row &at) {
  const polyconv_tensor &t = p.input;
  const Axis &h = p.axis[1];
  const int64_t y = at.h * h.step - h.before + h.taps - h.step;
  return static_cast<const From *>(r.input) + t.offset + at.n * t.stride[0] + at.d * t.stride[2] + y * t.stride[3];
}

// The first channel of a block: whole units, so that vectors of different blocks never overlap.
POLYCONV_INLINE int64_t block_channel(const DepthwisePlan &p, int64_t block) {
  return block == p.blocks ? p.channels : block * (p.channels / kDepthwiseUnit) / p.blocks * kDepthwiseUnit;
}

template <class Filter, class From, class T>
POLYCONV_NOINLINE void depthwise_share(const DepthwisePlan &p, const LayerRun &r, const ItemShare &share) {
  DepthwiseGroup<From, T> group = {p,
                                   r,
                                   reinterpret_cast<const From **>(share.scratch),
                                   reinterpret_cast<T *>(share.scratch + p.sums_at),
                                   {},
                                   0,
                                   0,
                                   nullptr,
                                   reinterpret_cast<DepthwiseLine *>(share.scratch + p.rows_at),
                                   0};
  const int64_t groups = p.items / p.parts;
  for (int64_t item = share.first; item < share.last; ++item) {
    const int64_t part = item / groups, h = item % groups % p.row_groups * p.tile_rows;
    const int64_t plane = item % groups / p.row_groups;
    group.at = {plane / p.axis[0].out, 0, plane % p.axis[0].out, h, 0, 1};
    group.ahead = p.walks ? first_row<From>(p, r, group.at) : p.ahead ? next_row<From>(p, r, group.at) : nullptr;
    group.rows = p.axis[1].out - h < p.tile_rows ? p.axis[1].out - h : p.tile_rows;
    const int64_t first = block_channel(p, part * p.blocks / p.parts);
    for (; group.at.w < p.axis[2].out; group.at.w += kDepthwiseChunk) {
      const int64_t rest = p.axis[2].out - group.at.w;
      group.columns = rest < kDepthwiseChunk ? rest : kDepthwiseChunk;
      if (!p.nine) list_lines(group);
      for (int64_t block = part * p.blocks / p.parts, c = first, end = 0; block < (part + 1) * p.blocks / p.parts;
           ++block, c = end) {
        end = block_channel(p, block + 1);
        for (int64_t x = 0; x < group.columns; x += p.tile_columns) filter_tile<Filter>(group, x, c, end);
      }
    }
  }
  if (r.stream) streamed_stores_done();
}

template <class Filter>
POLYCONV_INLINE void depthwise_typed(const DepthwisePlan &p, const LayerRun &r, const ItemShare &share) {
  for_types(p.input.type, p.epilogue.sum_type == POLYCONV_S32, [&](auto row) {
    depthwise_share<Filter, typename decltype(row)::From, typename decltype(row)::Sum>(p, r, share);
  });
}

} // namespace polyconv::cpu::POLYCONV_ISA
