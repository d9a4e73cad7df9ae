// pooling.hpp - what one pooling window holds: the rules of polyconv_pool, one axis and one result at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <algorithm>

namespace polyconv::sdk {

// One axis of a layer's pooling; a window of one where there is none.
struct PoolWindow {
  int64_t size, stride, pad;
};

inline PoolWindow pool_window(const polyconv_layer &l, int axis) {
  const polyconv_pool &pool = l.epilogue.pool;
  if (pool.kind == POLYCONV_POOL_NONE) return {1, 1, 0};
  return {pool.window[axis], pool.stride[axis], pool.pad_begin[axis]};
}

// The part of result i's window that lies inside [0, size), on one axis: coordinates begin, begin + step, ... < end.
struct PoolSpan {
  int64_t begin, end; // coordinates before pooling
  int64_t first;      // begin's place inside the window, which counts elements
  int64_t step;       // the dilation
  int64_t count() const { return begin < end ? (end - begin + step - 1) / step : 0; }
};

inline PoolSpan pool_span(const polyconv_layer &l, int axis, int64_t i, int64_t size) {
  const polyconv_pool &pool = l.epilogue.pool;
  const int64_t step = l.pool_dilation[axis], from = i * pool.stride[axis] - pool.pad_begin[axis];
  const int64_t first = from < 0 ? (-from + step - 1) / step : 0, behind = from + (pool.window[axis] - 1) * step + 1;
  return {from + first * step, std::min(behind, size), first, step};
}

// The elements of result i's window that an average counts on one axis where it counts padding.
inline int64_t pool_counted(const polyconv_layer &l, int axis, int64_t i, int64_t size) {
  const polyconv_pool &pool = l.epilogue.pool;
  const int64_t step = l.pool_dilation[axis], from = i * pool.stride[axis] - pool.pad_begin[axis];
  const int64_t limit = size + pool.pad_end[axis] - l.pool_overhang[axis];
  return std::min(pool.window[axis], (limit - from + step - 1) / step);
}

// What an average divides the results of a window by: the product over the axes.
inline int64_t pool_divisor(const polyconv_layer &l, int axis, int64_t i, int64_t size) {
  return l.epilogue.pool.count_include_pad ? pool_counted(l, axis, i, size) : pool_span(l, axis, i, size).count();
}

// The results whose windows reach over coordinate i of one axis, of `results` there are: the other way round. Of a
// dilated window i may lie between the elements, see pool_place.
struct PoolReaders {
  int64_t begin, end;
};

inline PoolReaders pool_readers(const polyconv_layer &l, int axis, int64_t i, int64_t results) {
  const polyconv_pool &pool = l.epilogue.pool;
  const int64_t from = i + pool.pad_begin[axis]; // counted from the first window's begin
  const int64_t behind = from - (pool.window[axis] - 1) * l.pool_dilation[axis];
  const int64_t begin = behind > 0 ? (behind + pool.stride[axis] - 1) / pool.stride[axis] : 0;
  return {begin, std::min(from / pool.stride[axis] + 1, results)};
}

// The place of coordinate i, over which the window of `result` reaches, in that window; -1 between its elements.
inline int64_t pool_place(const polyconv_layer &l, int axis, int64_t result, int64_t i) {
  const int64_t distance = i - result * l.epilogue.pool.stride[axis] + l.epilogue.pool.pad_begin[axis];
  return distance % l.pool_dilation[axis] == 0 ? distance / l.pool_dilation[axis] : -1;
}

// Whether `candidate` takes the maximum from `best`: greater, or NaN, which is greater than everything. Asked in order
// of D, H, W the first stays among equals.
template <class T>
inline bool pool_better(T candidate, T best) {
  return candidate > best || (candidate != candidate && best == best);
}

} // namespace polyconv::sdk
