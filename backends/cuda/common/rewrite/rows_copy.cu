// rows_copy.cu - see rows_copy.hpp. A thread writes 16 bytes. What it reads begins at any element, so it reads words
// and shifts them into place: elements one by one took four times as long.
//
// Floor: the tensor and the rows once.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/rows_copy.hpp"

#include <cstring>

#include "common/device/launch.hpp"
#include "common/divider.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/pixels.hpp"
#include "common/ptx/grid.cuh"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256;

struct RowsCopy {
  const void *from;
  void *to;
  int32_t channels, row, count; // elements of a pixel and of a row; vectors that are written
  int32_t elements;             // of the tensor
  Divider by;                   // vectors of a row; or channels
};

template <class T>
constexpr int kElements = 16 / sizeof(T); // of a vector

// A vector of the elements from `first` on, of an array of `end`, whose memory begins at whole words. Words that begin
// beyond the end are zeros.
template <class T>
__device__ inline uint4 load_shifted(const T *from, int32_t first, int32_t end) {
  constexpr int kInWord = 4 / sizeof(T);
  const int32_t word = first / kInWord;
  const auto *const words = reinterpret_cast<const uint32_t *>(from);
  const auto load = [&](int32_t i) -> uint32_t {
    if ((word + i + 1) * kInWord <= end) return words[word + i];
    return (word + i) * kInWord < end ? static_cast<uint32_t>(from[(word + i) * kInWord]) : 0; // half of the last
  };
  uint4 v = make_uint4(load(0), load(1), load(2), load(3));
  if (kInWord == 1 || first % kInWord == 0) return v;
  v.x = __funnelshift_r(v.x, v.y, 16), v.y = __funnelshift_r(v.y, v.z, 16), v.z = __funnelshift_r(v.z, v.w, 16);
  v.w = __funnelshift_r(v.w, load(4), 16);
  return v;
}

// The first `count` elements; zeros behind them.
template <class T>
__device__ inline uint4 first_of(const uint4 &vector, int32_t count) {
  T values[kElements<T>];
  uint4 v = vector;
  memcpy(values, &v, 16);
#pragma unroll
  for (int i = 0; i < kElements<T>; ++i)
    if (i >= count) values[i] = 0;
  memcpy(&v, values, 16);
  return v;
}

template <class T>
__global__ void __launch_bounds__(kThreads) gather(const __grid_constant__ RowsCopy p) {
  ptx::let_next_begin(), ptx::await_previous();
  const auto step = static_cast<int32_t>(gridDim.x) * kThreads;
  for (int32_t i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x); i < p.count; i += step) {
    const int32_t row = p.by(i), channel = (i - row * p.by.by) * kElements<T>, left = p.channels - channel;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (left > 0) v = load_shifted(static_cast<const T *>(p.from), row * p.channels + channel, p.elements);
    static_cast<uint4 *>(p.to)[i] = left >= kElements<T> ? v : first_of<T>(v, left);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) scatter(const __grid_constant__ RowsCopy p) {
  ptx::let_next_begin(), ptx::await_previous();
  const auto step = static_cast<int32_t>(gridDim.x) * kThreads;
  for (int32_t i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x); i < p.count; i += step) {
    const int32_t first = i * kElements<T>, row = p.by(first), channel = first - row * p.channels;
    const T *const from = static_cast<const T *>(p.from) + static_cast<int64_t>(row) * p.row;
    if (channel + kElements<T> <= p.channels) {
      static_cast<uint4 *>(p.to)[i] = load_shifted(from, channel, p.row);
      continue;
    }
    T values[kElements<T>]; // of two pixels, or of the tensor's end
    const int32_t count = min(kElements<T>, p.elements - first);
#pragma unroll
    for (int e = 0; e < kElements<T>; ++e) {
      const bool next = channel + e >= p.channels;
      values[e] = e < count ? from[next ? p.row + channel + e - p.channels : channel + e] : T(0);
    }
    if (count == kElements<T>) {
      uint4 v;
      memcpy(&v, values, 16);
      static_cast<uint4 *>(p.to)[i] = v;
      continue;
    }
#pragma unroll
    for (int e = 0; e < kElements<T>; ++e)
      if (e < count) static_cast<T *>(p.to)[first + e] = values[e];
  }
}

template <class Go>
void for_type(int32_t type, const Go &go) {
  if (sdk::type_bytes(type) == 2)
    go(uint16_t{});
  else
    go(uint32_t{});
}

} // namespace

bool fits_rows_copy(const polyconv_tensor &t) {
  const int64_t bytes = sdk::type_bytes(t.type);
  if ((bytes != 2 && bytes != 4) || t.stride[1] != 1 || t.size[1] < 16 / bytes || t.offset % (16 / bytes) != 0)
    return false;
  return pixels_lie_apart(t, t.size[1]) && sdk::elements(t) < INT32_MAX - 16;
}

double rows_copy_us(const polyconv_tensor &t, int64_t row) {
  constexpr double kCached = 50e6;
  const double bytes = real(sdk::elements(t) / t.size[1] * (t.size[1] + row) * sdk::type_bytes(t.type));
  return 1.5 + bytes / (bytes < kCached ? 5e6 : 3.5e6);
}

void gather_rows(const polyconv_tensor &t, int64_t row, const void *from, void *rows, cudaStream_t stream) {
  const int64_t vector = 16 / sdk::type_bytes(t.type), pixels = sdk::elements(t) / t.size[1];
  const int64_t count = pixels * row / vector;
  const RowsCopy p = {begin_of(t, from),
                      rows,
                      small(t.size[1]),
                      small(row),
                      small(count),
                      small(sdk::elements(t)),
                      Divider::make(small(row / vector))};
  for_type(t.type, [&](auto element) {
    launch_early(gather<decltype(element)>, blocks_for(count, kThreads), kThreads, 0, stream, p);
  });
}

void scatter_rows(const polyconv_tensor &t, int64_t row, const void *rows, void *to, cudaStream_t stream) {
  const int64_t vector = 16 / sdk::type_bytes(t.type), count = ceil_div(sdk::elements(t), vector);
  const RowsCopy p = {rows,
                      begin_of(t, to),
                      small(t.size[1]),
                      small(row),
                      small(count),
                      small(sdk::elements(t)),
                      Divider::make(small(t.size[1]))};
  for_type(t.type, [&](auto element) {
    launch_early(scatter<decltype(element)>, blocks_for(count, kThreads), kThreads, 0, stream, p);
  });
}

} // namespace polyconv::cuda
