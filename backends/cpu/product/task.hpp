// task.hpp - one split of a piece of the weight gradients: units in order, both factors into panels, tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/bias/types.hpp"
#include "cpu/product/pack.hpp"
#include "cpu/product/plan.hpp"
#include "cpu/product/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// What a piece owns; channels counted inside the group, panels inside the piece.
struct ProductPiece {
  int64_t group, c, c_count, k, k_count;
};

POLYCONV_INLINE ProductPiece product_piece(const ProductPlan &p, int64_t index) {
  const int64_t tall = p.tall_block * p.tall, wide = p.wide_block * p.wide;
  const int64_t c = index % p.tall_pieces * tall, k = index / p.tall_pieces % p.wide_pieces * wide;
  const int64_t c_left = p.group_in - c, k_left = p.group_out - k;
  return {index / p.tall_pieces / p.wide_pieces, c, c_left < tall ? c_left : tall, k, k_left < wide ? k_left : wide};
}

// Lines of the output and columns of each.
struct ProductUnit {
  int64_t line, lines, column, columns;
};

POLYCONV_INLINE ProductUnit product_unit(const ProductPlan &p, int64_t index) {
  const int64_t line = index / p.chunks * p.block_lines, column = index % p.chunks * p.chunk;
  const int64_t lines = p.lines - line, columns = p.columns - column;
  return {line, lines < p.block_lines ? lines : p.block_lines, column, columns < p.chunk ? columns : p.chunk};
}

// A task's scratch.
template <class T>
struct ProductScratch {
  T *tall, *wide;
  int64_t *rows;       // which input row each stored one is: image, depth and line as one number, -1 for padding
  int64_t *list;       // for each tap of D and H and each line of the unit the stored row; -1: left out
  int64_t *counts;     // runs of each tap of D and H
  ProductPixels *runs; // block_lines of them for each
  ProductStretch *ahead;
  POLYCONV_MEMBER ProductScratch(const ProductPlan &p, char *scratch)
      : tall(reinterpret_cast<T *>(scratch)),
        wide(reinterpret_cast<T *>(scratch + p.wide_at)),
        rows(reinterpret_cast<int64_t *>(scratch + p.rows_at)),
        list(reinterpret_cast<int64_t *>(scratch + p.list_at)),
        counts(list + p.line_taps * p.block_lines),
        runs(reinterpret_cast<ProductPixels *>(scratch + p.runs_at)),
        ahead(reinterpret_cast<ProductStretch *>(scratch + p.ahead_at)) {}
};

// Finds the input rows that the unit reads, each once; returns how many.
template <class T>
POLYCONV_NOINLINE int64_t find_rows(const ProductPlan &p, const ProductUnit &unit, const ProductScratch<T> &s) {
  const Axis &depths = p.axis[0], &lines = p.axis[1];
  int64_t used = 0;
  for (int64_t i = 0; i < unit.lines; ++i) {
    const int64_t line = unit.line + i, h = line % lines.out, d = line / lines.out % depths.out;
    const int64_t image = line / lines.out / depths.out;
    for (int64_t tap = 0; tap < p.line_taps; ++tap) {
      const int64_t t = tap / lines.taps, r = tap % lines.taps;
      const int64_t depth = inside(depths, d * depths.step + t * depths.dilation - depths.before);
      const int64_t row = inside(lines, h * lines.step + r * lines.dilation - lines.before);
      int64_t &stored = s.list[tap * p.block_lines + i];
      stored = -1;
      if ((depth < 0 || row < 0) && p.clips) continue;
      const int64_t key = depth < 0 || row < 0 ? -1 : (image * depths.in + depth) * lines.in + row;
      stored = used - 1; // newest first: rows come in order
      while (stored >= 0 && s.rows[stored] != key) --stored;
      if (stored < 0) s.rows[stored = used++] = key;
    }
  }
  return used;
}

// The pixels of every tap of D and H, as runs of both panels.
template <class T>
POLYCONV_INLINE void list_runs(const ProductPlan &p, const ProductUnit &unit, const ProductScratch<T> &s) {
  for (int64_t tap = 0; tap < p.line_taps; ++tap) {
    ProductPixels *runs = s.runs + tap * p.block_lines;
    int64_t n = 0;
    for (int64_t i = 0; i < unit.lines; ++i) {
      const int64_t stored = s.list[tap * p.block_lines + i];
      if (stored < 0) continue;
      const ProductPixels run = {stored * p.row_columns * p.tall_width, i * p.chunk * p.wide, unit.columns};
      if (p.joins && n > 0 && runs[n - 1].tall + runs[n - 1].count * p.tall_width == run.tall &&
          runs[n - 1].wide + runs[n - 1].count * p.wide == run.wide)
        runs[n - 1].count += run.count;
      else
        runs[n++] = run;
    }
    s.counts[tap] = n;
  }
}

template <class T>
POLYCONV_INLINE void fill_pixels(const ProductPanels &panels, int64_t count, T value, T *out) {
  for (int64_t c = 0; c < panels.channels; c += panels.width, out += panels.elements)
    for (int64_t i = 0; i < count * panels.width; ++i) out[i] = value;
}

// One input row from column `first` on: `count` stored columns. `in` is its column 0, NULL for a row of padding.
template <class From, class T>
POLYCONV_INLINE void pack_row(const ProductPlan &p, const From *in, int64_t first, int64_t count,
                              const ProductPanels &panels, T *out) {
  const Axis &axis = p.axis[2];
  const T pad = static_cast<T>(p.pad_value);
  if (!in) return fill_pixels(panels, count, pad, out);
  const int64_t stride = p.input.stride[4], channel = p.input.stride[1];
  const AxisRun run = axis_run(first, p.pitch, axis.in, first + count * p.pitch, count);
  for (int64_t i = 0; i < count; ++i) {
    T *pixel = out + i * panels.width;
    if (i == run.a && run.a < run.b) {
      pack_pixels<From, T>(in + (first + i * p.pitch) * stride, channel, stride * p.pitch, run.b - run.a, panels,
                           pixel);
      i = run.b - 1;
      continue;
    }
    const int64_t source = inside(axis, first + i * p.pitch);
    if (source < 0)
      fill_pixels(panels, 1, pad, pixel);
    else
      pack_pixels<From, T>(in + source * stride, channel, stride, 1, panels, pixel);
  }
}

// The input rows of a unit.
template <class From, class T>
POLYCONV_NOINLINE void pack_input(const ProductPlan &p, const void *base, const ProductPiece &piece,
                                  const ProductUnit &unit, int64_t rows, const ProductScratch<T> &s) {
  const polyconv_tensor &t = p.input;
  const int64_t channel = p.diagonal ? piece.k : piece.group * p.group_in + piece.c;
  const From *input = static_cast<const From *>(base) + t.offset + channel * t.stride[1];
  const ProductPanels panels = {p.diagonal ? piece.k_count : piece.c_count, p.tall_width, p.tall_elements};
  const Axis &axis = p.axis[2];
  const int64_t first = unit.column * axis.step - axis.before;
  const int64_t count = (unit.columns - 1) * p.step + (axis.taps - 1) * axis.dilation + 1;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t key = s.rows[i], row = key % p.axis[1].in, plane = key / p.axis[1].in;
    const int64_t place = plane / p.axis[0].in * t.stride[0] + plane % p.axis[0].in * t.stride[2] + row * t.stride[3];
    pack_row<From, T>(p, key < 0 ? nullptr : input + place, first, count, panels,
                      s.tall + i * p.row_columns * p.tall_width);
  }
}

// The lines of the output's gradient.
template <class From, class T>
POLYCONV_NOINLINE void pack_gradient(const ProductPlan &p, const void *base, const ProductPiece &piece,
                                     const ProductUnit &unit, const ProductScratch<T> &s) {
  const polyconv_tensor &t = p.gradient;
  const From *gradient =
      static_cast<const From *>(base) + t.offset + (piece.group * p.group_out + piece.k) * t.stride[1];
  const ProductPanels panels = {piece.k_count, p.wide, p.wide_elements};
  for (int64_t i = 0; i < unit.lines; ++i) {
    const int64_t line = unit.line + i, plane = line / p.axis[1].out;
    const int64_t place = plane / p.axis[0].out * t.stride[0] + plane % p.axis[0].out * t.stride[2] +
                          line % p.axis[1].out * t.stride[3] + unit.column * t.stride[4];
    pack_pixels<From, T>(gradient + place, t.stride[1], t.stride[4], unit.columns, panels,
                         s.wide + i * p.chunk * p.wide);
  }
}

// What a tap of W sees of a unit's columns: the first, and how many fewer than all.
struct ProductClip {
  int64_t first, cut;
};
POLYCONV_INLINE ProductClip clip_of(const ProductPlan &p, const ProductUnit &unit, int64_t tap) {
  if (!p.clips || p.merged) return {0, 0};
  const Axis &w = p.axis[2];
  const int64_t shift = w.before - tap * w.dilation; // input column = output column * step - shift
  int64_t first = shift > 0 ? steps_to(shift, w.step) : 0, last = w.in + shift > 0 ? steps_to(w.in + shift, w.step) : 0;
  first = first < unit.column ? 0 : first - unit.column;
  last = last - unit.column < unit.columns ? last - unit.column : unit.columns;
  return {first, last > first ? unit.columns - (last - first) : unit.columns};
}

// Adds a unit to the sums of one pair of panels: `channels` of the tall one.
template <class T, int N>
POLYCONV_INLINE void multiply_panels(const ProductPlan &p, const ProductUnit &unit, const ProductScratch<T> &s,
                                     int64_t channels, ProductTile<T> tile) {
  const T *const tall = tile.tall, *const wide = tile.wide;
  const Axis &w = p.axis[2];
  tile.tall_step = p.step * p.tall_width;
  tile.wide_step = p.wide;
  for (int64_t tap = 0; tap < p.line_taps; ++tap) {
    tile.runs = s.runs + tap * p.block_lines;
    tile.run_count = s.counts[tap];
    if (p.merged) {
      const int64_t all = w.taps * p.tall;
      for (int64_t row = 0; row < all; row += p.tile_rows) {
        const int64_t rows = all - row < p.tile_rows ? all - row : p.tile_rows;
        tile.tall = tall + row;
        product_tile_of<T, N>(rows, tile);
        tile.sums += rows * p.wide;
      }
      continue;
    }
    for (int64_t t = 0; t < w.taps; ++t, tile.sums += p.tall * p.wide) {
      const ProductClip clip = clip_of(p, unit, t);
      tile.tall = tall + (t * w.dilation + clip.first * p.step) * p.tall_width;
      tile.wide = wide + clip.first * p.wide;
      tile.cut = clip.cut;
      product_tile_of<T, N>(channels, tile);
    }
  }
}

// Depthwise: adds a unit to the sums of one panel, a few taps of W at a time.
template <class T>
POLYCONV_INLINE void multiply_lanes(const ProductPlan &p, const ProductScratch<T> &s, ProductTile<T> tile) {
  const T *const tall = tile.tall;
  T *const sums = tile.sums;
  const Axis &w = p.axis[2];
  tile.tall_step = p.step * p.tall_width;
  tile.wide_step = p.wide;
  for (int64_t tap = 0; tap < p.line_taps; ++tap) {
    tile.runs = s.runs + tap * p.block_lines;
    tile.run_count = s.counts[tap];
    for (int64_t t = 0; t < w.taps; t += kProductTaps) {
      tile.tall = tall + t * w.dilation * p.tall_width;
      tile.sums = sums + (tap * w.taps + t) * p.wide;
      lane_tile_of(w.taps - t, w.dilation * p.tall_width, tile);
    }
  }
}

template <class T>
POLYCONV_INLINE void multiply_unit(const ProductPlan &p, const ProductPiece &piece, const ProductUnit &unit,
                                   const ProductScratch<T> &s, bool first, T *sums, ProductAhead &ahead) {
  ProductTile<T> tile = {};
  tile.ahead = &ahead;
  tile.first = first;
  tile.sums = sums;
  tile.wide = s.wide;
  for (int64_t k = 0; k < piece.k_count; k += p.wide, tile.wide += p.wide_elements) {
    tile.tall = s.tall;
    tile.sums = sums + k / p.wide * p.tall_block * p.tile_elements;
    if (p.diagonal) {
      tile.tall = s.tall + k / p.wide * p.tall_elements;
      multiply_lanes(p, s, tile);
      continue;
    }
    for (int64_t c = 0; c < piece.c_count; c += p.tall, tile.tall += p.tall_elements) {
      const int64_t left = piece.c_count - c, channels = left < p.tall ? left : p.tall;
      if (piece.k_count - k > kLanes<T>)
        multiply_panels<T, 2>(p, unit, s, channels, tile);
      else
        multiply_panels<T, 1>(p, unit, s, channels, tile);
      tile.sums += p.tile_elements;
    }
  }
}

POLYCONV_INLINE int64_t stored_bytes(int32_t type) {
  return type == POLYCONV_F64 ? 8 : type == POLYCONV_F32 ? 4 : 2;
}

// What a unit reads that the one before it did not, about: stretches of lines of one image and depth.
template <class T>
POLYCONV_NOINLINE ProductAhead list_ahead(const ProductPlan &p, const WeightsRun &r, const ProductPiece &piece,
                                          const ProductUnit &unit, const ProductScratch<T> &s) {
  const Axis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  const int64_t in_bytes = stored_bytes(p.input.type), out_bytes = stored_bytes(p.gradient.type);
  const int64_t channel = p.diagonal ? piece.k : piece.group * p.group_in + piece.c;
  const char *input = static_cast<const char *>(r.input) + (p.input.offset + channel * p.input.stride[1]) * in_bytes;
  const char *gradient = static_cast<const char *>(r.gradient) +
                         (p.gradient.offset + (piece.group * p.group_out + piece.k) * p.gradient.stride[1]) * out_bytes;
  const auto place = [](const polyconv_tensor &t, int64_t n, int64_t depth, int64_t row, int64_t column) {
    return n * t.stride[0] + depth * t.stride[2] + row * t.stride[3] + column * t.stride[4];
  };
  ProductStretches to_come = {s.ahead, 0, 0};
  for (int64_t line = unit.line, end = unit.line + unit.lines; line < end;) {
    const int64_t row = line % h.out, plane = line / h.out, n = plane / d.out, depth = plane % d.out;
    const int64_t rows = h.out - row < end - line ? h.out - row : end - line;
    to_come.add_pixels(p.gradient, gradient + place(p.gradient, n, depth, row, unit.column) * out_bytes, out_bytes,
                       piece.k_count, (rows - 1) * p.columns + unit.columns);
    int64_t first = row * h.step - h.before + (row > 0 ? (h.taps - 1) * h.dilation : 0), from = depth * d.step;
    int64_t last = (row + rows - 1) * h.step - h.before + (h.taps - 1) * h.dilation;
    first = first < 0 ? 0 : first, last = last < h.in ? last : h.in - 1, from = from < d.in ? from : d.in - 1;
    const int64_t column = unit.column * w.step;
    to_come.add_pixels(
        p.input, input + place(p.input, n, from, first, column) * in_bytes, in_bytes,
        p.diagonal ? piece.k_count : piece.c_count,
        (last - first) * w.in + (unit.columns * w.step < w.in - column ? unit.columns * w.step : w.in - column));
    line += rows;
  }
  const int64_t pairs = (piece.c_count + p.tall - 1) / p.tall * ((piece.k_count + p.wide - 1) / p.wide);
  const int64_t tiles = pairs * p.line_taps * (p.merged ? 1 : w.taps), pixels = unit.lines * unit.columns;
  const int64_t steps = tiles * (p.diagonal ? pixels / 4 : pixels);
  return to_come.ahead(steps, reinterpret_cast<const char *>(s.rows));
}

template <class T>
POLYCONV_NOINLINE void run_product(const ProductPlan &p, const WeightsRun &r, const ProductShare &share) {
  const ProductPiece piece = product_piece(p, share.piece);
  const ProductScratch<T> s(p, share.scratch);
  T *sums = static_cast<T *>(share.sums);
  const int64_t first = share.split * p.units / p.splits, last = (share.split + 1) * p.units / p.splits;
  if (first == last) __builtin_memset(sums, 0, static_cast<size_t>(p.sums) * sizeof(T));
  for (int64_t i = first; i < last; ++i) {
    const ProductUnit unit = product_unit(p, i);
    const int64_t rows = find_rows(p, unit, s);
    list_runs(p, unit, s);
    for_gradient_type<T>(
        p.input.type, [&](auto row) { pack_input<typename decltype(row)::From, T>(p, r.input, piece, unit, rows, s); });
    for_gradient_type<T>(p.gradient.type, [&](auto row) {
      pack_gradient<typename decltype(row)::From, T>(p, r.gradient, piece, unit, s);
    });
    const ProductUnit next = i + 1 < last ? product_unit(p, i + 1) : ProductUnit{};
    ProductAhead ahead = list_ahead(p, r, piece, next, s);
    multiply_unit(p, piece, unit, s, i == first, sums, ahead);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
