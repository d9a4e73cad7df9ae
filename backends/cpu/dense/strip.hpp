// strip.hpp - brings source lines into a task's strip: converted to the arithmetic's element, channels innermost,
// padding filled in where the strip holds it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/transpose.hpp"
#include "cpu/dense/element.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Output lines [line, line + lines) of one depth, tiles [tile, last_tile) of each, columns [column, last_column).
struct DenseBlock {
  int64_t image, depth, line, lines, tile, last_tile, column, last_column;
  int64_t first_line, first_column; // input coordinates of the strip's first line and column
  int64_t last_input_column;        // and of its last column
  int64_t origin;                   // what to subtract from offsets of output column 0's first tap
};

template <class T>
POLYCONV_INLINE void fill(T *out, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) out[i] = value;
}

// n channels that lie side by side, as `count` elements.
template <class From, class T>
POLYCONV_INLINE void copy_channels(const Element<From, T> &element, const From *in, int64_t n, int64_t count, T *out) {
  constexpr int kL = kLanes<T>;
  if constexpr (Element<From, T>::kChannels > 1) {
    element.copy(in, n, count, out);
  } else {
    int64_t i = 0;
    for (; i + kL <= count; i += kL) store(out + i, element.full(in + i, {}));
    const int rest = static_cast<int>(count - i);
    if (rest) store_partial(out + i, element.partial(in + i, {}, rest), rest);
  }
}

// n neighbouring pixels `stride` (1 or 2) apart of one channel, from p on.
template <class From, class T>
POLYCONV_INLINE Vector<T> load_pixels(const Element<From, T> &element, const From *p, ElementChannels c, int64_t stride,
                                      int n) {
  constexpr int kL = kLanes<T>;
  if (stride == 1) return n == kL ? element.full(p, c) : element.partial(p, c, n);
  const int reach = 2 * n - 1;
  const Vector<T> first = reach < kL ? element.partial(p, c, reach) : element.full(p, c);
  const Vector<T> second = reach > kL ? element.partial(p + kL, c, reach - kL) : Vector<T>{};
  return even_lanes<T>(first, second);
}

// `pixels` neighbours of `channels` channels from c on, whose first lies at `in`: a vector each. Whole squares at
// stride 1 are by far the most; the others share one loop, for code that is said sixteen times takes 50 KB in bytes.
template <class From, class T>
POLYCONV_INLINE void load_square(const DensePlan &p, const Element<From, T> &element, const From *in, int64_t c,
                                 int channels, int64_t stride, int pixels, Vector<T> (&square)[kLanes<T>]) {
  typedef Element<From, T> E;
  constexpr int kL = kLanes<T>;
  const int64_t apart = E::kChannels * p.input.stride[1];
  if (stride == 1 && channels == kL && pixels == kL) {
    const int64_t ahead = 2 * kL; // more lines than a core follows by itself
#pragma GCC unroll 16
    for (int lane = 0; lane < kL; ++lane, in += apart) {
      __builtin_prefetch(in + ahead);
      square[lane] = element.full(in, channels_of<E>(p, c + lane));
    }
    return;
  }
#pragma GCC unroll 1
  for (int lane = 0; lane < kL; ++lane, in += apart) {
    __builtin_prefetch(in +
                       (stride == 1 ? 2 * kL : kL * apart)); // strided rows are short, and the next one is left out
    if (stride == 2) __builtin_prefetch(in + kL * apart + kL);
    square[lane] =
        lane < channels ? load_pixels(element, in, channels_of<E>(p, c + lane), stride, pixels) : Vector<T>{};
  }
}

// `count` pixels whose channels lie apart: squares of vectors are transposed.
template <class From, class T>
POLYCONV_INLINE void turn_pixels(const DensePlan &p, const Element<From, T> &element, const From *in, int64_t stride,
                                 int64_t count, T *out) {
  constexpr int kL = kLanes<T>, kC = Element<From, T>::kChannels;
  for (int64_t c = 0; c < p.pixel; c += kL) {
    const int channels = p.pixel - c < kL ? static_cast<int>(p.pixel - c) : kL;
    for (int64_t i = 0; i < count; i += kL) {
      const int pixels = count - i < kL ? static_cast<int>(count - i) : kL;
      Vector<T> square[kL];
      load_square(p, element, in + c * kC * p.input.stride[1] + i * stride, c, channels, stride, pixels, square);
      transpose<T>(square);
      T *to = out + i * p.strip_pixel + c;
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane, to += p.strip_pixel) {
        if (lane >= pixels) break;
        if (channels == kL)
          store(to, square[lane]);
        else
          store_partial(to, square[lane], channels);
      }
    }
  }
}

// `count` pixels of the group, `stride` elements apart, from `in` (channel 0) on.
template <class From, class T>
POLYCONV_NOINLINE void copy_pixels(const DensePlan &p, const Element<From, T> &element, const From *in, int64_t stride,
                                   int64_t count, T *out) {
  typedef Element<From, T> E;
  if (p.input.stride[1] == 1) {
    if (stride == p.group_in && p.group_in == E::kChannels * p.pixel && p.strip_pixel == p.pixel)
      return copy_channels(element, in, count * p.group_in, count * p.pixel, out);
    if constexpr (E::kChannels == 1)
      if (p.pixel == kLanes<T>) { // groups of many layers
        for (int64_t i = 0; i < count; ++i) store(out + i * p.strip_pixel, element.full(in + i * stride, {}));
        return;
      }
    for (int64_t i = 0; i < count; ++i)
      copy_channels(element, in + i * stride, p.group_in, p.pixel, out + i * p.strip_pixel);
    return;
  }
  if (p.pixel >= kLanes<T> / 2 && (stride == 1 || stride == 2)) return turn_pixels(p, element, in, stride, count, out);
  for (int64_t c = 0; c < p.pixel; ++c) {
    const From *first = in + c * E::kChannels * p.input.stride[1];
    for (int64_t i = 0; i < count; ++i)
      out[i * p.strip_pixel + c] = element.one(first + i * stride, channels_of<E>(p, c));
  }
}

// Input columns first, first + pitch, ..., `count` of them. `line` is column 0, NULL for a line of padding.
template <class From, class T>
POLYCONV_INLINE void fill_columns(const DensePlan &p, const Element<From, T> &element, const From *line, int64_t first,
                                  int64_t count, T *out) {
  const Axis &axis = p.axis[2];
  if (!line) return fill(out, count * p.strip_pixel, element.padding());
  const AxisRun run = axis_run(first, p.pitch[2], axis.in, first + count * p.pitch[2], count);
  const int64_t stride = p.input.stride[4];
  for (int64_t i = run.a > 0 ? 0 : run.b; i < count; i = i + 1 == run.a ? run.b : i + 1) { // [0, a) and [b, count)
    const int64_t source = inside(axis, first + i * p.pitch[2]);
    T *pixel = out + i * p.strip_pixel;
    if (source < 0)
      fill(pixel, p.pixel, element.padding());
    else
      copy_pixels(p, element, line + source * stride, stride, 1, pixel);
  }
  copy_pixels(p, element, line + (first + run.a * p.pitch[2]) * stride, stride * p.pitch[2], run.b - run.a,
              out + run.a * p.strip_pixel);
}

// Line 0 of an image's depth, and line `row` of that; NULL where either is padding.
template <class From>
POLYCONV_INLINE const From *line_at(const DensePlan &p, const From *image, int64_t depth, int64_t row) {
  return depth < 0 || row < 0 ? nullptr : image + depth * p.input.stride[2] + row * p.input.stride[3];
}

// All lines of the block's taps. `in` is the group's first channel.
template <class From, class T>
POLYCONV_INLINE void fill_strip(const DensePlan &p, const From *in, const DenseBlock &b, T *strip) {
  const Element<From, T> element(p);
  const From *image = in + b.image * p.input.stride[0];
  const Axis &depths = p.axis[0], &rows = p.axis[1];
  const int64_t columns = (b.last_input_column - b.first_column) / p.pitch[2] + 1;
  const int64_t end = (b.line + b.lines - 1) * rows.step + (rows.taps - 1) * rows.dilation - rows.before;
  for (int64_t t = 0; t < depths.taps; ++t, strip += p.strip_lines * p.strip_line) {
    const int64_t depth = inside(depths, b.depth * depths.step + t * depths.dilation - depths.before);
    if (depth < 0 && p.skips_lines) continue;
    T *out = strip;
    for (int64_t y = b.first_line; y <= end; y += p.pitch[1], out += p.strip_line) {
      const int64_t row = inside(rows, y);
      if (row < 0 && p.skips_lines) continue;
      fill_columns(p, element, line_at(p, image, depth, row), b.first_column, columns, out);
    }
  }
}

// One tap, columns that run through whole images: output line after output line.
template <class From, class T>
POLYCONV_INLINE void fill_flat_strip(const DensePlan &p, const From *in, const DenseBlock &b, T *strip) {
  const Element<From, T> element(p);
  const Axis &depths = p.axis[0], &rows = p.axis[1], &columns = p.axis[2];
  for (int64_t i = b.column; i < b.last_column;) {
    const int64_t line = i / columns.out, w = i % columns.out, d = line / rows.out;
    const From *image = in + (b.image + d / depths.out) * p.input.stride[0];
    const int64_t pixels = depths.out * rows.out * columns.out; // of an image
    const int64_t rest = p.one_stride ? pixels - i % pixels : columns.out - w;
    const int64_t count = rest < b.last_column - i ? rest : b.last_column - i;
    if (p.one_stride) {
      copy_pixels(p, element, image + i % pixels * p.input.stride[4], p.input.stride[4], count,
                  strip + (i - b.column) * p.strip_pixel);
      i += count;
      continue;
    }
    const int64_t depth = inside(depths, d % depths.out * depths.step - depths.before);
    const int64_t row = inside(rows, line % rows.out * rows.step - rows.before);
    fill_columns(p, element, line_at(p, image, depth, row), w * columns.step - columns.before, count,
                 strip + (i - b.column) * p.strip_pixel);
    i += count;
  }
}

// The strip of a block. `in` is the group's first channel.
template <class From, class T>
POLYCONV_NOINLINE void fill_block(const DensePlan &p, const void *in, const DenseBlock &b, T *strip) {
  if (p.flat)
    fill_flat_strip<From, T>(p, static_cast<const From *>(in), b, strip);
  else
    fill_strip<From, T>(p, static_cast<const From *>(in), b, strip);
}

} // namespace polyconv::cpu::POLYCONV_ISA
