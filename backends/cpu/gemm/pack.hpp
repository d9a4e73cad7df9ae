// pack.hpp - gathers activations for the matrix product: k by pixels, converted to the arithmetic's element, padding
// filled in. The im2col matrix is only ever made a block at a time, in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/gemm/plan.hpp"
#include "cpu/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Pixels side by side in one row of one image of the output.
struct PixelRun {
  int64_t n, d, h, w;
  int64_t lane, count; // place in the strip
};

// Cuts `count` pixels from `first` on into runs; with whole_images runs go on through rows and planes (for writing).
POLYCONV_INLINE int cut_runs(const GemmPlan &p, int64_t first, int64_t count, bool whole_images, PixelRun *runs) {
  int n = 0;
  const int64_t row = p.out[2];
  for (int64_t lane = 0; lane < count; ++n) {
    const int64_t pixel = first + lane, in_image = pixel % p.image_pixels, line = in_image / row;
    PixelRun &run = runs[n];
    run.n = pixel / p.image_pixels;
    run.d = line / p.out[1];
    run.h = line % p.out[1];
    run.w = in_image % row;
    run.lane = lane;
    const int64_t end = whole_images ? p.image_pixels - in_image : row - run.w;
    run.count = end < count - lane ? end : count - lane;
    lane += run.count;
  }
  return n;
}

// The element offset of input coordinate `i` on an axis, -1 where it reads the padding value.
POLYCONV_INLINE int64_t axis_offset(const GemmAxis &axis, int64_t i) {
  if (i < 0) return axis.left[-1 - i];
  return i < axis.size ? i * axis.stride : axis.right[i - axis.size];
}
POLYCONV_INLINE int64_t axis_offset(const GemmAxis &axis, int64_t out, int64_t tap) {
  return axis_offset(axis, out * axis.step + tap * axis.dilation - axis.before);
}

// Walks through k: a tap, and a channel element in it.
struct TapCursor {
  int64_t t, r, s, c; // tap along d, h, w; element
  POLYCONV_MEMBER TapCursor(const GemmPlan &p, int64_t k) {
    const int64_t tap = k / p.channel_elements;
    c = k % p.channel_elements;
    s = tap % p.taps[2];
    r = tap / p.taps[2] % p.taps[1];
    t = tap / p.taps[2] / p.taps[1];
  }
  POLYCONV_MEMBER void next_row(const GemmPlan &p) {
    c = s = 0;
    if (++r == p.taps[1]) r = 0, ++t;
  }
  POLYCONV_MEMBER void next_tap(const GemmPlan &p) {
    c = 0;
    if (++s == p.taps[2]) next_row(p);
  }
};

// ---------------------------------------------------------------- storage to arithmetic element

// How inputs of type From become elements of type T. For pairs an element holds two channels, at p and at q (q NULL
// beyond the last); elsewhere q is not looked at.
template <class From, class T>
struct Element {
  static constexpr int kChannels = 1;
  float pad;
  explicit POLYCONV_MEMBER Element(const GemmPlan &plan) : pad(static_cast<float>(plan.pad_value)) {}
  POLYCONV_MEMBER F32 full(const From *p, const From *) const { return load_f32(p); }
  POLYCONV_MEMBER F32 partial(const From *p, const From *, int n) const { return load_f32_partial(p, n); }
  POLYCONV_MEMBER float one(const From *p, const From *) const { return scalar_f32(*p); }
  POLYCONV_MEMBER float padding() const { return pad; }
};

template <>
struct Element<double, double> {
  static constexpr int kChannels = 1;
  double pad;
  explicit POLYCONV_MEMBER Element(const GemmPlan &plan) : pad(plan.pad_value) {}
  POLYCONV_MEMBER F64 full(const double *p, const double *) const { return load(p); }
  POLYCONV_MEMBER F64 partial(const double *p, const double *, int n) const { return load_partial(p, n); }
  POLYCONV_MEMBER double one(const double *p, const double *) const { return *p; }
  POLYCONV_MEMBER double padding() const { return pad; }
};

template <class From>
struct Element<From, int32_t> {
  static constexpr int kChannels = 2;
  int32_t zero_point, pad;
  explicit POLYCONV_MEMBER Element(const GemmPlan &plan)
      : zero_point(plan.zero_point), pad(static_cast<int32_t>(plan.pad_value) - plan.zero_point) {}
  POLYCONV_MEMBER S32 full(const From *p, const From *q) const {
    const S32 zero = splat(zero_point), low = load_s32(p) - zero;
    return pair(low, q ? load_s32(q) - zero : S32{});
  }
  POLYCONV_MEMBER S32 partial(const From *p, const From *q, int n) const {
    From low[kLanes<int32_t>] = {}, high[kLanes<int32_t>] = {};
    for (int i = 0; i < n; ++i) low[i] = p[i];
    for (int i = 0; q && i < n; ++i) high[i] = q[i];
    return full(low, q ? high : nullptr);
  }
  POLYCONV_MEMBER int32_t one(const From *p, const From *q) const {
    return pair(*p - zero_point, q ? *q - zero_point : 0);
  }
  POLYCONV_MEMBER int32_t padding() const { return pair(pad, pad); }

  // Low first in memory, on either byte order: channels side by side are pairs already.
  POLYCONV_MEMBER static S32 pair(S32 first, S32 second) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (first & 0xffff) | bits_as<S32>(bits_as<U32>(second) << 16);
#else
    return (second & 0xffff) | bits_as<S32>(bits_as<U32>(first) << 16);
#endif
  }
  POLYCONV_MEMBER static int32_t pair(int32_t first, int32_t second) {
    int16_t both[2] = {static_cast<int16_t>(first), static_cast<int16_t>(second)};
    int32_t result;
    __builtin_memcpy(&result, both, sizeof result);
    return result;
  }
};

// ---------------------------------------------------------------- pixels along the vectors

// One run of one tap, for channels [first, last) of the group: into rows of `width` elements.
template <class From, class T>
POLYCONV_INLINE void pack_run(const GemmPlan &p, const Element<From, T> &element, const From *line, const PixelRun &run,
                              int64_t tap, int64_t first, int64_t last, int64_t width, T *rows) {
  constexpr int kL = kLanes<T>, kC = Element<From, T>::kChannels;
  const GemmAxis &axis = p.axis[2];
  const int64_t channel_stride = p.input.stride[1];
  // Columns [a, b) of the run read inside the tensor; the others go through the tables.
  int64_t a = p.inside[2 * tap] - run.w, b = p.inside[2 * tap + 1] - run.w;
  a = a < 0 ? 0 : a > run.count ? run.count : a;
  b = b < a ? a : b > run.count ? run.count : b;
  const int64_t step = axis.step * axis.stride;
  const int64_t start = ((run.w + a) * axis.step + tap * axis.dilation - axis.before) * axis.stride;
  for (int64_t c = first; c < last; ++c) {
    T *row = rows + (c - first) * width + run.lane;
    const int64_t channel = c * kC;
    const From *plane = line + channel * channel_stride;
    const int64_t second = kC == 2 && channel + 1 < p.group_in ? channel_stride : 0;
    const From *in = plane + start;
    if (step == 1) {
      int64_t i = a;
      for (; i + kL <= b; i += kL, in += kL) store(row + i, element.full(in, second ? in + second : nullptr));
      if (i < b) {
        const int rest = static_cast<int>(b - i);
        const Vector<T> tail = element.partial(in, second ? in + second : nullptr, rest);
        // What this writes beyond the run, the next run or the edge overwrites.
        if (run.lane + i + kL <= width)
          store(row + i, tail);
        else
          store_partial(row + i, tail, rest);
      }
    } else {
      for (int64_t i = a; i < b; ++i, in += step) row[i] = element.one(in, second ? in + second : nullptr);
    }
    for (int64_t i = a > 0 ? 0 : b; i < run.count; i = i + 1 == a ? b : i + 1) { // [0, a) and [b, count)
      const int64_t offset = axis_offset(axis, run.w + i, tap);
      const From *source = plane + offset;
      row[i] = offset < 0 ? element.padding() : element.one(source, second ? source + second : nullptr);
    }
  }
}

// k [first, last) of the pixels in `runs`, as rows of `width` elements (a whole number of vectors; lanes beyond the
// pixels are zero). `in` is the group's first channel.
template <class From, class T>
POLYCONV_NOINLINE void pack_strip(const GemmPlan &p, const From *in, const PixelRun *runs, int run_count, int64_t width,
                                  int64_t first, int64_t last, T *strip) {
  const Element<From, T> element(p);
  const int64_t filled = runs[run_count - 1].lane + runs[run_count - 1].count;
  TapCursor tap(p, first);
  for (int64_t k = first; k < last;) {
    const int64_t rest = p.channel_elements - tap.c, count = rest < last - k ? rest : last - k;
    T *rows = strip + (k - first) * width;
    for (int i = 0; i < run_count; ++i) {
      const PixelRun &run = runs[i];
      const int64_t d = axis_offset(p.axis[0], run.d, tap.t), h = axis_offset(p.axis[1], run.h, tap.r);
      if (d >= 0 && h >= 0) {
        pack_run(p, element, in + run.n * p.input.stride[0] + d + h, run, tap.s, tap.c, tap.c + count, width, rows);
      } else {
        for (int64_t row = 0; row < count; ++row)
          for (int64_t j = 0; j < run.count; ++j) rows[row * width + run.lane + j] = element.padding();
      }
    }
    if (filled < width)
      for (int64_t row = 0; row < count; ++row)
        for (int64_t j = filled; j < width; ++j) rows[row * width + j] = 0;
    tap.next_tap(p);
    k += count;
  }
}

// ---------------------------------------------------------------- channels along the vectors

// `count` elements from input elements `stride` apart, side by side. `valid` input channels are there (odd for a last
// half pair).
template <class From, class T>
POLYCONV_INLINE void pack_channels(const Element<From, T> &element, const From *in, int64_t stride, int64_t valid,
                                   int64_t count, T *out) {
  constexpr int kL = kLanes<T>;
  if constexpr (Element<From, T>::kChannels == 2) {
    int16_t *o = reinterpret_cast<int16_t *>(out);
    int64_t i = 0;
    if (stride == 1) {
      const S32 zero = splat(element.zero_point);
      for (; i + kL <= valid; i += kL) {
        const HalfS16 narrow = __builtin_convertvector(load_s32(in + i) - zero, HalfS16);
        __builtin_memcpy(o + i, &narrow, sizeof narrow);
      }
    }
    for (; i < valid; ++i) o[i] = static_cast<int16_t>(in[i * stride] - element.zero_point);
    if (valid < 2 * count) o[valid] = 0;
  } else {
    int64_t i = 0;
    if (stride == 1) {
      for (; i + kL <= count; i += kL) store(out + i, element.full(in + i, nullptr));
      if (i < count)
        store_partial(out + i, element.partial(in + i, nullptr, static_cast<int>(count - i)),
                      static_cast<int>(count - i));
      return;
    }
    for (; i < count; ++i) out[i] = element.one(in + i * stride, nullptr);
  }
}

// k [first, last) of one pixel, side by side.
template <class From, class T>
POLYCONV_NOINLINE void pack_pixel(const GemmPlan &p, const From *in, const PixelRun &pixel, int64_t first, int64_t last,
                                  T *out) {
  constexpr int kC = Element<From, T>::kChannels;
  const Element<From, T> element(p);
  const From *image = in + pixel.n * p.input.stride[0];
  const GemmAxis &axis = p.axis[2];
  const int64_t channel_stride = p.input.stride[1];
  // Taps along W read one run of memory where pixels hold nothing but this group's channels.
  const int64_t column = pixel.w * axis.step - axis.before;
  const bool one_run = kC == 1 && axis.dilation == 1 && channel_stride == 1 && axis.stride == p.group_in &&
                       column >= 0 && column + p.taps[2] <= axis.size;
  TapCursor tap(p, first);
  for (int64_t k = first; k < last;) {
    const int64_t taps = one_run ? p.taps[2] - tap.s : 1;
    const int64_t rest = taps * p.channel_elements - tap.c, count = rest < last - k ? rest : last - k;
    const int64_t d = axis_offset(p.axis[0], pixel.d, tap.t), h = axis_offset(p.axis[1], pixel.h, tap.r);
    const int64_t w = one_run ? (column + tap.s) * axis.stride : axis_offset(axis, pixel.w, tap.s);
    T *o = out + (k - first);
    if (d < 0 || h < 0 || w < 0) {
      for (int64_t i = 0; i < count; ++i) o[i] = element.padding();
    } else {
      const int64_t left = kC == 2 ? p.group_in - tap.c * kC : count;
      pack_channels(element, image + d + h + w + tap.c * kC * channel_stride, channel_stride,
                    left < count * kC ? left : count * kC, count, o);
    }
    if (one_run)
      tap.next_row(p);
    else
      tap.next_tap(p);
    k += count;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
