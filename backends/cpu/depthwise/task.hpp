// task.hpp - one task of depthwise convolution with channels side by side: groups of rows of results, chunks of
// columns, blocks of channels, tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/tile.hpp"
#include "cpu/types.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// A group of rows of one image, and a chunk of its columns.
template <class From, class T>
struct DepthwiseGroup {
  const DepthwisePlan &plan;
  const DepthwiseRun &run;
  const From **pixels;
  T *sums;
  Row at; // the first result
  int64_t rows, columns;
  const From *ahead; // the source row below those of this group, where it is to be fetched early
};

// Writes down where the pixels of one source row lie, as far as a chunk reads them; `row` NULL in padding.
template <class From>
POLYCONV_NOINLINE void list_pixels(const DepthwisePlan &p, const From *row, int64_t first_column, const From **line) {
  const Axis &w = p.axis[2];
  const From *padding = static_cast<const From *>(p.padding);
  const int64_t stride = p.input.stride[4];
  const int64_t first = first_column * w.step - w.before;
  const auto [a, b, last] = axis_run(first, 1, w.in, w.in + w.after, row ? p.line_pixels : 0);
  for (int64_t x = 0; x < a; ++x) {
    const int64_t from = inside(w, first + x);
    line[x] = from < 0 ? padding : row + from * stride;
  }
  for (int64_t x = a; x < b; ++x) line[x] = row + (first + x) * stride;
  for (int64_t x = b; x < last; ++x) {
    const int64_t from = inside(w, first + x);
    line[x] = from < 0 ? padding : row + from * stride;
  }
  for (int64_t x = last; x < p.line_pixels; ++x) line[x] = padding; // read for columns that do not exist
}

// The source rows of a group, in order of the taps of D and H.
template <class From, class T>
POLYCONV_INLINE void list_lines(const DepthwiseGroup<From, T> &group) {
  const DepthwisePlan &p = group.plan;
  const Axis &depth = p.axis[0], &height = p.axis[1];
  const From *image = static_cast<const From *>(group.run.input) + p.input.offset + group.at.n * p.input.stride[0];
  const From **line = group.pixels;
  for (int64_t i = 0; i < depth.taps; ++i)
    for (int64_t j = 0; j < p.lines; ++j, line += p.line_pixels) {
      const int64_t y = group.at.h * height.step + j * (p.square ? 1 : height.dilation) - height.before;
      const int64_t d = inside(depth, group.at.d * depth.step + i * depth.dilation - depth.before);
      const int64_t h = y < height.in + height.after ? inside(height, y) : -1; // rows of results that do not exist
      const bool padding = d < 0 || h < 0;
      const From *row = padding ? nullptr : image + d * p.input.stride[2] + h * p.input.stride[3];
      list_pixels(p, row, group.at.w, line);
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

// Channels [c, end) of one tile.
template <class From, class T, int K>
POLYCONV_INLINE void square_tile(const DepthwisePlan &p, const DepthwiseTile<From, T> &tile, int64_t c, int64_t end,
                                 const DepthwiseStore<T> &to) {
  const bool two = p.axis[2].step == 2;
  if constexpr (sizeof(From) == 4 && kVectorBytes == 64) { // 14 sums, 9 weights, a source vector
    if (p.tile_columns == kDepthwiseWide)
      return two ? depthwise_square<From, T, K, 2, kDepthwiseWide>(tile, c, end, to)
                 : depthwise_square<From, T, K, 1, kDepthwiseWide>(tile, c, end, to);
  }
  return two ? depthwise_square<From, T, K, 2, kDepthwiseNarrow>(tile, c, end, to)
             : depthwise_square<From, T, K, 1, 4>(tile, c, end, to);
}
template <class From, class T>
POLYCONV_INLINE void any_tile(const DepthwisePlan &p, const DepthwiseTile<From, T> &tile, int64_t c, int64_t end,
                              const DepthwiseStore<T> &to) {
  if constexpr (Unrolled<From>::value) {
    if (p.square == 3) return square_tile<From, T, 3>(p, tile, c, end, to);
    if (p.square == 5) return square_tile<From, T, 5>(p, tile, c, end, to);
  }
  depthwise_any<From, T, 4>(tile, p.axis[0].taps * p.lines, p.axis[2], c, end, to);
}

// The first pixel of the first source row that the group below reads and this one does not, at column x of results.
template <class From, class T>
POLYCONV_INLINE const From *source_below(const DepthwiseGroup<From, T> &group, int64_t x) {
  return group.ahead + (group.at.w + x) * group.plan.axis[2].step * group.plan.input.stride[4];
}

// Columns [x, x + tile_columns) of the group, channels [c, end).
template <class From, class T>
POLYCONV_INLINE void filter_tile(const DepthwiseGroup<From, T> &group, int64_t x, int64_t c, int64_t end) {
  const DepthwisePlan &p = group.plan;
  const Epilogue &e = group.run.epilogue;
  const int64_t rest = group.columns - x, columns = rest < p.tile_columns ? rest : p.tile_columns;
  const From *const *pixels = group.pixels + x * p.axis[2].step;
  const DepthwiseTile<From, T> tile = {pixels,           p.line_pixels, static_cast<const T *>(group.run.weights),
                                       p.row_stride,     p.zero_point,  group.ahead ? source_below(group, x) : nullptr,
                                       p.input.stride[3]};
  Row at = group.at;
  at.w += x;
  if (p.direct) {
    T *to = static_cast<T *>(e.output) + row_offset(e.result, at);
    return any_tile(p, tile, c, end,
                    {to, e.result.stride[3], e.result.stride[4], group.rows, columns, static_cast<const T *>(e.bias),
                     &e.rules, group.run.stream != 0});
  }
  const int64_t column = kDepthwiseSums, row = p.tile_columns * column;
  any_tile(p, tile, c, end, {group.sums - c, row, column, group.rows, columns, nullptr, nullptr, false});
  at.k = c;
  for (int64_t r = 0; r < group.rows; ++r, ++at.h) finish_rows(e, group.sums + r * row, column, columns, end - c, at);
}

// The first source row that the group of rows at `at` does not read; NULL where the one below would leave the image.
template <class From>
POLYCONV_INLINE const From *row_below(const DepthwisePlan &p, const DepthwiseRun &r, const Row &at) {
  const polyconv_tensor &t = p.input;
  const int64_t h = at.h * p.axis[1].step - p.axis[1].before + p.lines;
  if (h < 0 || h + p.tile_rows * p.axis[1].step > t.size[3]) return nullptr;
  return static_cast<const From *>(r.input) + t.offset + at.n * t.stride[0] + at.d * t.stride[2] + h * t.stride[3];
}

template <class From, class T>
POLYCONV_NOINLINE void depthwise_share(const DepthwisePlan &p, const DepthwiseRun &r, const DepthwiseShare &share) {
  DepthwiseGroup<From, T> group = {p,
                                   r,
                                   reinterpret_cast<const From **>(share.scratch),
                                   reinterpret_cast<T *>(share.scratch + p.sums_at),
                                   {},
                                   0,
                                   0,
                                   nullptr};
  for (int64_t item = share.first; item < share.last; ++item) {
    const int64_t h = item % p.row_groups * p.tile_rows, plane = item / p.row_groups;
    group.at = {plane / p.axis[0].out, 0, plane % p.axis[0].out, h, 0, 1};
    group.ahead = p.ahead ? row_below<From>(p, r, group.at) : nullptr;
    group.rows = p.axis[1].out - h < p.tile_rows ? p.axis[1].out - h : p.tile_rows;
    for (; group.at.w < p.axis[2].out; group.at.w += kDepthwiseChunk) {
      const int64_t rest = p.axis[2].out - group.at.w;
      group.columns = rest < kDepthwiseChunk ? rest : kDepthwiseChunk;
      list_lines(group);
      for (int64_t block = 0, c = 0, end = 0; block < p.blocks; ++block, c = end) {
        end = (block + 1) * p.channels / p.blocks;
        if (end < p.channels) end = end / kDepthwiseUnit * kDepthwiseUnit;
        for (int64_t x = 0; x < group.columns; x += p.tile_columns) filter_tile(group, x, c, end);
      }
    }
  }
  if (r.stream) streamed_stores_done();
}

POLYCONV_INLINE void depthwise_typed(const DepthwisePlan &p, const DepthwiseRun &r, const DepthwiseShare &share) {
  for_types(p.input.type, p.epilogue.sum_type == POLYCONV_S32,
            [&](auto row) { depthwise_share<typename decltype(row)::From, typename decltype(row)::Sum>(p, r, share); });
}

} // namespace polyconv::cpu::POLYCONV_ISA
