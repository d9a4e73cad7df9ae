// task.hpp - one task of depthwise convolution with channels side by side: rows of results, a vector of channels at a
// time, several pixels in registers so that a source vector is loaded once for all the taps that read it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/plan.hpp"
#include "cpu/direct/load.hpp"
#include "cpu/finish.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// A source row and the weights that it meets, at a row of results; in padding every pixel is the same one.
template <class From, class T>
struct DepthwiseTerm {
  const From *row;
  int64_t pixel; // elements between pixels, 0 in padding
  const T *weights;
};

// One row of results, its sources, and a vector of `count` channels from c on.
template <class From, class T>
struct DepthwiseRow {
  const DepthwisePlan &plan;
  const DepthwiseRun &run;
  const DepthwiseTerm<From, T> *terms;
  int64_t term_count;
  Row at; // the row's first result
  int64_t c;
  int count;
  T *sums; // [column][lanes], where results are not stored at once
};

// Stores P sums from column x on.
template <class From, class T, int P>
POLYCONV_INLINE void put(const DepthwiseRow<From, T> &row, int64_t x, int64_t first, const Vector<T> (&acc)[P]) {
  constexpr int kL = kLanes<T>;
  const Epilogue &e = row.run.epilogue;
  if constexpr (sizeof(T) == 4 && static_cast<T>(0.5) != 0) {
    if (row.plan.direct) {
      const polyconv_tensor &t = e.result;
      float *p = static_cast<float *>(e.output) + row_offset(t, row.at) + x * t.stride[4] + row.c;
      const float *bias = e.bias ? static_cast<const float *>(e.bias) + row.c : nullptr;
      const F32 alpha = splat(e.rules.activation_alpha);
      for (int i = 0; i < P; ++i, p += t.stride[4]) {
        F32 v = acc[i];
        if (bias) v += row.count == kL ? load(bias) : load_partial(bias, row.count);
        v = activate(v, e.rules.activation, alpha);
        if (row.count < kL)
          store_partial(p, v, row.count);
        else if (row.run.stream)
          store_past_cache(p, v);
        else
          store(p, v);
      }
      return;
    }
  }
  for (int i = 0; i < P; ++i) store(row.sums + (x - first + i) * kL, acc[i]);
}

template <class From, class T>
POLYCONV_INLINE Vector<T> load_channels(const Load<From, T> &convert, const From *p, int count) {
  return count == kLanes<T> ? convert.full(p) : convert.partial(p, count);
}

// P inner columns with K taps a row at stride Step, dilation 1, of whole vectors.
template <class From, class T, int K, int Step, int P>
POLYCONV_INLINE void unrolled(const DepthwiseRow<From, T> &row, int64_t x, int64_t first) {
  const DepthwisePlan &p = row.plan;
  const Load<From, T> convert(p.zero_point);
  Vector<T> acc[P] = {};
  for (int64_t i = 0; i < row.term_count; ++i) {
    const DepthwiseTerm<From, T> &term = row.terms[i];
    const From *source = term.row + (x * Step - p.axis[2].before) * term.pixel + row.c;
    const T *weights = term.weights + row.c;
    Vector<T> w[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) w[k] = load(weights + k * p.row_stride);
#pragma GCC unroll 32
    for (int s = 0; s < (P - 1) * Step + K; ++s, source += term.pixel) {
      const Vector<T> v = convert.full(source);
#pragma GCC unroll 8
      for (int j = 0; j < P; ++j) {
        const int k = s - j * Step;
        if (k >= 0 && k < K) acc[j] = multiply_add(v, w[k], acc[j]);
      }
    }
  }
  put<From, T, P>(row, x, first, acc);
}

// P inner columns of any shape.
template <class From, class T, int P>
POLYCONV_INLINE void any_shape(const DepthwiseRow<From, T> &row, int64_t x, int64_t first) {
  const DepthwisePlan &p = row.plan;
  const Axis &axis = p.axis[2];
  const Load<From, T> convert(p.zero_point);
  Vector<T> acc[P] = {};
  for (int64_t i = 0; i < row.term_count; ++i) {
    const DepthwiseTerm<From, T> &term = row.terms[i];
    for (int64_t k = 0; k < axis.taps; ++k) {
      const From *source = term.row + (x * axis.step + k * axis.dilation - axis.before) * term.pixel + row.c;
      const Vector<T> w = load(term.weights + k * p.row_stride + row.c);
#pragma GCC unroll 4
      for (int j = 0; j < P; ++j)
        acc[j] = multiply_add(load_channels(convert, source + j * axis.step * term.pixel, row.count), w, acc[j]);
    }
  }
  put<From, T, P>(row, x, first, acc);
}

// A column at the edge, some of whose taps lie in padding.
template <class From, class T>
POLYCONV_NOINLINE void edge(const DepthwiseRow<From, T> &row, int64_t x, int64_t first) {
  const DepthwisePlan &p = row.plan;
  const Axis &axis = p.axis[2];
  const Load<From, T> convert(p.zero_point);
  Vector<T> acc[1] = {};
  for (int64_t i = 0; i < row.term_count; ++i) {
    const DepthwiseTerm<From, T> &term = row.terms[i];
    for (int64_t k = 0; k < axis.taps; ++k) {
      const int64_t column = inside(axis, x * axis.step + k * axis.dilation - axis.before);
      const From *source = column < 0 ? static_cast<const From *>(p.padding) : term.row + column * term.pixel;
      const Vector<T> w = load(term.weights + k * p.row_stride + row.c);
      acc[0] = multiply_add(load_channels(convert, source + row.c, row.count), w, acc[0]);
    }
  }
  put<From, T, 1>(row, x, first, acc);
}

template <class From, class T, int K, int Step>
POLYCONV_NOINLINE void inner_unrolled(const DepthwiseRow<From, T> &row, int64_t x, int64_t end, int64_t first) {
  for (; x + 8 <= end; x += 8) unrolled<From, T, K, Step, 8>(row, x, first);
  for (; x + 4 <= end; x += 4) unrolled<From, T, K, Step, 4>(row, x, first);
  for (; x < end; ++x) unrolled<From, T, K, Step, 1>(row, x, first);
}

template <class From, class T>
POLYCONV_NOINLINE void inner_any(const DepthwiseRow<From, T> &row, int64_t x, int64_t end, int64_t first) {
  for (; x + 4 <= end; x += 4) any_shape<From, T, 4>(row, x, first);
  for (; x < end; ++x) any_shape<From, T, 1>(row, x, first);
}

// The types of networks are worth their code; f64 and u16 make do with the loop of any shape.
template <class From>
struct Unrolled {
  static constexpr bool value = true;
};
template <>
struct Unrolled<double> {
  static constexpr bool value = false;
};
template <>
struct Unrolled<uint16_t> {
  static constexpr bool value = false;
};
template <class From>
constexpr bool kUnrolled = Unrolled<From>::value;

// Inner columns [x, end); sums are counted from column `first`.
template <class From, class T>
POLYCONV_INLINE void inner(const DepthwiseRow<From, T> &row, int64_t x, int64_t end, int64_t first) {
  const Axis &axis = row.plan.axis[2];
  if constexpr (kUnrolled<From>) {
    const bool plain = axis.dilation == 1 && axis.step <= 2 && row.count == kLanes<T>;
    if (plain && axis.taps == 3)
      return axis.step == 1 ? inner_unrolled<From, T, 3, 1>(row, x, end, first)
                            : inner_unrolled<From, T, 3, 2>(row, x, end, first);
    if (plain && axis.taps == 5)
      return axis.step == 1 ? inner_unrolled<From, T, 5, 1>(row, x, end, first)
                            : inner_unrolled<From, T, 5, 2>(row, x, end, first);
  }
  inner_any(row, x, end, first);
}

// Columns [first, end) of one vector of channels.
template <class From, class T>
POLYCONV_INLINE void columns(const DepthwiseRow<From, T> &row, int64_t first, int64_t end) {
  const DepthwisePlan &p = row.plan;
  const int64_t a = p.inner < first ? first : p.inner < end ? p.inner : end;
  const int64_t b = p.inner_end < a ? a : p.inner_end < end ? p.inner_end : end;
  for (int64_t x = first; x < a; ++x) edge(row, x, first);
  inner(row, a, b, first);
  for (int64_t x = b; x < end; ++x) edge(row, x, first);
  if (p.direct) return;
  Row at = row.at;
  at.k = row.c;
  at.w = first;
  finish_rows(row.run.epilogue, row.sums, kLanes<T>, end - first, row.count, at);
}

// The sources of one row of results, in order of the taps of D and H.
template <class From, class T>
POLYCONV_INLINE int64_t list_sources(const DepthwisePlan &p, const DepthwiseRun &r, const Row &at,
                                     DepthwiseTerm<From, T> *terms) {
  const From *image = static_cast<const From *>(r.input) + p.input.offset + at.n * p.input.stride[0];
  const T *weights = static_cast<const T *>(r.weights);
  int64_t n = 0;
  for (int64_t i = 0; i < p.axis[0].taps; ++i)
    for (int64_t j = 0; j < p.axis[1].taps; ++j, weights += p.axis[2].taps * p.row_stride) {
      const int64_t d = inside(p.axis[0], at.d * p.axis[0].step + i * p.axis[0].dilation - p.axis[0].before);
      const int64_t h = inside(p.axis[1], at.h * p.axis[1].step + j * p.axis[1].dilation - p.axis[1].before);
      if (d < 0 || h < 0)
        terms[n++] = {static_cast<const From *>(p.padding), 0, weights};
      else
        terms[n++] = {image + d * p.input.stride[2] + h * p.input.stride[3], p.input.stride[4], weights};
    }
  return n;
}

template <class From, class T>
POLYCONV_NOINLINE void depthwise_share(const DepthwisePlan &p, const DepthwiseRun &r, const DepthwiseShare &share) {
  auto *terms = reinterpret_cast<DepthwiseTerm<From, T> *>(share.scratch);
  T *sums = reinterpret_cast<T *>(share.scratch + p.sums_at);
  const int64_t width = p.axis[2].out;
  for (int64_t i = share.first; i < share.last; ++i) {
    const int64_t h = i % p.axis[1].out, d = i / p.axis[1].out % p.axis[0].out;
    DepthwiseRow<From, T> row = {p, r, terms, 0, {i / p.axis[1].out / p.axis[0].out, 0, d, h, 0, 1}, 0, 0, sums};
    row.term_count = list_sources(p, r, row.at, terms);
    for (; row.c < p.channels; row.c += kLanes<T>) {
      const int64_t rest = p.channels - row.c;
      row.count = rest < kLanes<T> ? static_cast<int>(rest) : kLanes<T>;
      const int64_t step = p.direct ? width : kDepthwiseChunk;
      for (int64_t x = 0; x < width; x += step) columns(row, x, x + step < width ? x + step : width);
    }
  }
  if (r.stream) streamed_stores_done();
}

POLYCONV_INLINE void depthwise_typed(const DepthwisePlan &p, const DepthwiseRun &r, const DepthwiseShare &share) {
  const bool integers = p.epilogue.sum_type == POLYCONV_S32;
  switch (p.input.type) {
    case POLYCONV_F64: return depthwise_share<double, double>(p, r, share);
    case POLYCONV_F32: return depthwise_share<float, float>(p, r, share);
    case POLYCONV_F16: return depthwise_share<f16, float>(p, r, share);
    case POLYCONV_BF16: return depthwise_share<bf16, float>(p, r, share);
    case POLYCONV_U16: return depthwise_share<uint16_t, float>(p, r, share);
    case POLYCONV_S8: return depthwise_share<int8_t, int32_t>(p, r, share);
    case POLYCONV_U8:
      return integers ? depthwise_share<uint8_t, int32_t>(p, r, share) : depthwise_share<uint8_t, float>(p, r, share);
    default: return;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
