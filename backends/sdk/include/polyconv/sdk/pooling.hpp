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

// The part of result i's window that lies inside [0, size), on one axis.
struct PoolSpan {
  int64_t begin, end; // coordinates before pooling
  int64_t first;      // begin's place inside the window
};

inline PoolSpan pool_span(const polyconv_pool &pool, int axis, int64_t i, int64_t size) {
  const int64_t from = i * pool.stride[axis] - pool.pad_begin[axis];
  const int64_t begin = std::max<int64_t>(from, 0);
  return {begin, std::min(from + pool.window[axis], size), begin - from};
}

// The results whose windows hold coordinate i of one axis, of `results` there are: the other way round.
struct PoolReaders {
  int64_t begin, end;
};

inline PoolReaders pool_readers(const polyconv_pool &pool, int axis, int64_t i, int64_t results) {
  const int64_t from = i + pool.pad_begin[axis]; // counted from the first window's begin
  const int64_t behind = from - pool.window[axis] + 1;
  const int64_t begin = behind > 0 ? (behind + pool.stride[axis] - 1) / pool.stride[axis] : 0;
  return {begin, std::min(from / pool.stride[axis] + 1, results)};
}

// Whether `candidate` takes the maximum from `best`: greater, or NaN, which is greater than everything. Asked in order
// of D, H, W the first stays among equals.
template <class T>
inline bool pool_better(T candidate, T best) {
  return candidate > best || (candidate != candidate && best == best);
}

} // namespace polyconv::sdk
