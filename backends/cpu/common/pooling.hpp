// pooling.hpp - windows over rows of a stored tensor: n results side by side, along channels or along W, combined tap
// by tap of the window in order of D, H, W. For the pooling, and for the gradient, which looks for the maxima again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/common/load.hpp"

namespace polyconv::cpu {

struct PoolSource {
  polyconv_tensor input; // before pooling
  polyconv_pool rules;
  int64_t dilation[3], overhang[3]; // as a layer's pool_dilation and pool_overhang
};

#ifdef POLYCONV_DRIVER
inline void set_rules(const polyconv_layer &layer, PoolSource &source) {
  source.rules = layer.epilogue.pool;
  for (int axis = 0; axis < 3; ++axis) {
    source.dilation[axis] = layer.pool_dilation[axis];
    source.overhang[axis] = layer.pool_overhang[axis];
  }
}

// The rows of a result (for_each_row): the axis that they follow, 1 or 4, and how many there are.
struct ResultRows {
  int32_t axis;
  int64_t count;
};
inline ResultRows rows_of(const polyconv_tensor &r) {
  const int32_t axis = r.stride[1] == 1 && r.size[1] > 1 ? 1 : 4;
  return {axis, r.size[0] * r.size[2] * r.size[3] * r.size[axis == 4 ? 1 : 4]};
}
#endif

namespace POLYCONV_ISA {

constexpr int kPoolChunk = 256; // results combined at a time

// The part of a window that lies inside: taps [first, last), of which tap t lies at coordinate from + t * step.
struct PoolWindow {
  int64_t first, last;
  int64_t from, step;
  POLYCONV_MEMBER int64_t count() const { return last - first; }
};

POLYCONV_INLINE PoolWindow window_of(const PoolSource &p, int axis, int64_t i) {
  const int64_t from = i * p.rules.stride[axis] - p.rules.pad_begin[axis], step = p.dilation[axis];
  const int64_t inside = p.input.size[2 + axis] - from; // coordinates from `from` on
  const int64_t taps = inside <= 0 ? 0 : (inside + step - 1) / step, all = p.rules.window[axis];
  return {from < 0 ? (-from + step - 1) / step : 0, taps < all ? taps : all, from, step};
}

// The taps along W that any of results [i, i + n) finds inside.
POLYCONV_INLINE PoolWindow taps_of(const PoolSource &p, int64_t i, int64_t n) {
  const int64_t step = p.rules.stride[2], pad = p.rules.pad_begin[2], apart = p.dilation[2], all = p.rules.window[2];
  const int64_t begin = pad - (i + n - 1) * step, end = p.input.size[4] + pad - i * step;
  const int64_t last = end > 0 ? (end + apart - 1) / apart : 0;
  return {begin > 0 ? (begin + apart - 1) / apart : 0, last < all ? last : all, 0, 0};
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
  // Along W taps, of which any of the results find inside; else columns.
  const PoolWindow w = along_w ? taps_of(p, at.w, n) : window_of(p, 2, at.w);
  const int64_t step = p.rules.stride[2], stride = along_w ? step * t.stride[4] : t.stride[1];
  for (int64_t i = d.first; i < d.last; ++i)
    for (int64_t j = h.first; j < h.last; ++j)
      for (int64_t x = w.first; x < w.last; ++x) {
        const int64_t z = d.from + i * d.step, y = h.from + j * h.step;
        int64_t a = 0, b = n, column = w.from + x * w.step; // along W results [a, b) find tap x inside
        if (along_w) {
          const int64_t from = at.w * step - p.rules.pad_begin[2] + x * p.dilation[2];
          a = from < 0 ? (-from + step - 1) / step : 0;
          b = t.size[4] > from ? (t.size[4] - from + step - 1) / step : 0;
          b = b < n ? b : n;
          if (a >= b) continue;
          column = from + a * step;
        }
        const int64_t place = (i * p.rules.window[1] + j) * p.rules.window[2] + x;
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
  const int64_t place[3] = {at.d, at.h, at.axis == 4 ? at.w + i : at.w};
  int64_t count = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const PoolWindow window = window_of(p, axis, place[axis]);
    if (!p.rules.count_include_pad) {
      count *= window.count();
      continue;
    }
    const int64_t limit = p.input.size[2 + axis] + p.rules.pad_end[axis] - p.overhang[axis];
    const int64_t counted = (limit - window.from + window.step - 1) / window.step, all = p.rules.window[axis];
    count *= counted < all ? counted : all;
  }
  return count;
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu
