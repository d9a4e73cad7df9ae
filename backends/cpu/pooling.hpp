// pooling.hpp - windows over rows of a stored tensor: n results side by side, along channels or along W, combined tap
// by tap of the window in order of D, H, W. For the pooling, and for the gradient, which looks for the maxima again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/direct/load.hpp"
#include "cpu/finish.hpp"

namespace polyconv::cpu {

struct PoolSource {
  polyconv_tensor input; // before pooling
  polyconv_pool rules;
};

namespace POLYCONV_ISA {

constexpr int kPoolChunk = 256; // results combined at a time

// The part of a window that lies inside.
struct PoolWindow {
  int64_t begin, end; // coordinates of the input
  int64_t first;      // begin's place in the window
};

POLYCONV_INLINE PoolWindow window_of(const PoolSource &p, int axis, int64_t i) {
  const int64_t from = i * p.rules.stride[axis] - p.rules.pad_begin[axis], to = from + p.rules.window[axis];
  const int64_t begin = from < 0 ? 0 : from, size = p.input.size[2 + axis];
  return {begin, to < size ? to : size, begin - from};
}

template <class T>
struct PoolRow {
  alignas(64) T value[kPoolChunk];
  alignas(64) T loaded[kPoolChunk];
  alignas(64) int32_t place[kPoolChunk]; // of the maximum in its window; -1 before the first
};

// Combines results [a, b) with the loaded elements, whose place in the window is `place`. NaN wins over everything.
template <class T, bool Average, bool Save>
POLYCONV_INLINE void combine(PoolRow<T> &row, int64_t a, int64_t b, int32_t place) {
  const T *loaded = row.loaded;
  T *value = row.value + a;
  const int64_t n = b - a;
  if constexpr (Save) {
    for (int64_t i = 0; i < n; ++i) {
      const T v = loaded[i], best = value[i];
      const bool better = row.place[a + i] < 0 || v > best || (v != v && best == best);
      value[i] = better ? v : best;
      row.place[a + i] = better ? place : row.place[a + i];
    }
  } else {
    for (int64_t i = 0; i < n; i += kLanes<T>) {
      const int rest = n - i < kLanes<T> ? static_cast<int>(n - i) : kLanes<T>;
      const Vector<T> v = load(loaded + i), best = load_partial(value + i, rest);
      Vector<T> result;
      if constexpr (Average)
        result = best + v;
      else
        result = (v > best) | ((v != v) & (best == best)) ? v : best;
      store_partial(value + i, result, rest);
    }
  }
}

// Sets row.value, for maxima row.place too where Save, of `n` results from `at` on; averages are still sums. `change`
// is called with each tap's n values before they are combined.
template <class From, class T, bool Average, bool Save, class Change>
POLYCONV_INLINE void combine_row(const PoolSource &p, const From *input, const Row &at, int64_t n, PoolRow<T> &row,
                                 const Change &change) {
  const Load<From, T> convert(0);
  const bool along_w = at.axis == 4;
  for (int64_t i = 0; i < n; ++i) row.value[i] = Average ? T(0) : -static_cast<T>(__builtin_inf());
  if (Save)
    for (int64_t i = 0; i < n; ++i) row.place[i] = -1;
  const polyconv_tensor &t = p.input;
  const From *image = input + t.offset + at.n * t.stride[0] + at.k * t.stride[1];
  const PoolWindow d = window_of(p, 0, at.d), h = window_of(p, 1, at.h);
  const PoolWindow w = along_w ? PoolWindow{0, p.rules.window[2], 0} : window_of(p, 2, at.w);
  const int64_t step = p.rules.stride[2], stride = along_w ? step * t.stride[4] : t.stride[1];
  for (int64_t z = d.begin; z < d.end; ++z)
    for (int64_t y = h.begin; y < h.end; ++y)
      for (int64_t x = w.begin; x < w.end; ++x) {
        int64_t a = 0, b = n, column = x; // along W, x is the tap: results [a, b) find it inside
        if (along_w) {
          const int64_t from = at.w * step - p.rules.pad_begin[2] + x;
          a = from < 0 ? (-from + step - 1) / step : 0;
          b = t.size[4] > from ? (t.size[4] - from + step - 1) / step : 0;
          b = b < n ? b : n;
          if (a >= b) continue;
          column = from + a * step;
        }
        const int64_t line = (z - d.begin + d.first) * p.rules.window[1] + (y - h.begin + h.first);
        const int64_t place = line * p.rules.window[2] + (along_w ? x : x - w.begin + w.first);
        load_run(convert, image + z * t.stride[2] + y * t.stride[3] + column * t.stride[4], stride, b - a, row.loaded);
        change(row.loaded, b - a);
        combine<T, Average, Save>(row, a, b, static_cast<int32_t>(place));
      }
}

// The results of rows [first, last) of tensor r, whose rows follow `axis` (1 or 4) and are counted with W or C, H, D, N
// in this order from the innermost on: each(row, n) takes n of them side by side.
template <class Each>
POLYCONV_INLINE void for_each_row(const polyconv_tensor &r, int32_t axis, int64_t first, int64_t last,
                                  const Each &each) {
  const int other = axis == 4 ? 1 : 4; // the axis beside D, H and N that rows do not follow
  for (int64_t i = first; i < last; ++i) {
    int64_t rest = i;
    Row at = {0, 0, 0, 0, 0, axis};
    if (other == 4) at.w = rest % r.size[4], rest /= r.size[4];
    at.h = rest % r.size[3], rest /= r.size[3];
    at.d = rest % r.size[2], rest /= r.size[2];
    if (other == 1) at.k = rest % r.size[1], rest /= r.size[1];
    at.n = rest;
    for (int64_t begin = 0; begin < r.size[axis]; begin += kPoolChunk) {
      (axis == 4 ? at.w : at.k) = begin;
      const int64_t left = r.size[axis] - begin;
      each(at, left < kPoolChunk ? left : kPoolChunk);
    }
  }
}

// The elements that an average of row result i divides by.
POLYCONV_INLINE int64_t pool_count(const PoolSource &p, const Row &at, int64_t i) {
  if (p.rules.count_include_pad) return p.rules.window[0] * p.rules.window[1] * p.rules.window[2];
  const PoolWindow d = window_of(p, 0, at.d), h = window_of(p, 1, at.h);
  const PoolWindow w = window_of(p, 2, at.axis == 4 ? at.w + i : at.w);
  return (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu
