// results.cuh - finished rows of cuda-shuffle on their way into memory: straight from registers, or staged in shared
// memory for what needs neighbours in two directions (pooling) or much code an element (every other epilogue).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "shape.hpp"

namespace polyconv::cuda::shuffle {

// A lane's place: its tile's plane, and the first position that it computes.
struct Lane {
  int32_t index;              // in the tile
  int32_t image, k;           // of the output
  int32_t first_h;            // position: of the strip
  int32_t first_w;            // position: of the lane
  int32_t result_h, result_w; // first result of the tile
  bool active;                // lanes beyond the last tile march along, because shuffles need them
};

template <class O>
__device__ __forceinline__ O stored(float v, int32_t zero_point) {
  if constexpr (std::is_same_v<O, float>)
    return v;
  else if constexpr (std::is_same_v<O, __half>)
    return __float2half_rn(v);
  else if constexpr (std::is_same_v<O, __nv_bfloat16>)
    return __float2bfloat16_rn(v);
  else // as `put` with a scale of 1
    return static_cast<O>(
        round_to_integer(add(rintf(v), static_cast<float>(zero_point)), 0, sizeof(O) == 1 ? 255 : 65535));
}

template <class O, int count>
struct alignas(sizeof(O) * count < 16 ? sizeof(O) * count : 16) Vector {
  O v[count];

  // Halves are rounded in pairs, by one instruction.
  __device__ __forceinline__ Vector(const float (&from)[count], int32_t zero_point) {
    constexpr bool kPairs = count % 2 == 0;
    if constexpr (kPairs && std::is_same_v<O, __half>) {
#pragma unroll
      for (int i = 0; i < count; i += 2) *reinterpret_cast<__half2 *>(v + i) = __floats2half2_rn(from[i], from[i + 1]);
    } else if constexpr (kPairs && std::is_same_v<O, __nv_bfloat16>) {
#pragma unroll
      for (int i = 0; i < count; i += 2)
        *reinterpret_cast<__nv_bfloat162 *>(v + i) = __floats2bfloat162_rn(from[i], from[i + 1]);
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) v[i] = stored<O>(from[i], zero_point);
    }
  }
};

// The end of a sum that a bias and a relu at most follow.
struct Simple {
  float bias;
  bool has_bias, relu, any;

  __device__ __forceinline__ Simple(const Conv<int32_t> &p, int32_t k)
      : bias(p.epilogue.bias ? static_cast<const float *>(p.epilogue.bias)[k] : 0.0f),
        has_bias(p.epilogue.bias != nullptr),
        relu(p.epilogue.activation == POLYCONV_ACT_RELU),
        any(has_bias || relu) {}
  __device__ __forceinline__ float operator()(float v) const {
    if (has_bias) v = add(v, bias);
    return relu && v < 0 ? 0.0f : v;
  }
};

// Where a lane's part of each result row goes; the result's columns are neighbours. T is the input's type, and the
// result's unless that is f32.
template <class T, int count>
class RowStore {
 public:
  // The lane's first result of its first row; rows: of the tile.
  __device__ __forceinline__ RowStore(const Conv<int32_t> &p, const March &m, const Lane &lane, void *y, int32_t h,
                                      int32_t w)
      : y_(y),
        columns_(min(p.result.size[4] - w, count)),
        rows_(lane.active && columns_ > 0 ? min(m.results_h, p.result.size[3] - h) : 0),
        vector_(m.vector_stores && columns_ == count),
        first_(p.result.at(lane.image, lane.k, 0, h, w)) {}

  __device__ __forceinline__ bool has(int32_t row) const {
    return static_cast<uint32_t>(row) < static_cast<uint32_t>(rows_);
  }
  __device__ __forceinline__ void store(const Conv<int32_t> &p, int32_t row, const float (&v)[count]) const {
    const int32_t at = first_ + row * p.result.stride[3];
    if (std::is_same_v<T, float> || p.epilogue.result_type == POLYCONV_F32)
      store_as(p, static_cast<float *>(y_) + at, v);
    else
      store_as(p, static_cast<T *>(y_) + at, v);
  }

 private:
  template <class O>
  __device__ __forceinline__ void store_as(const Conv<int32_t> &p, O *to, const float (&v)[count]) const {
    const Vector<O, count> results(v, p.epilogue.out_zero_point);
    if (vector_) {
      *reinterpret_cast<Vector<O, count> *>(to) = results;
      return;
    }
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (i < columns_) to[i] = results.v[i];
  }

  void *const y_;
  const int32_t columns_, rows_;
  const bool vector_;
  const int32_t first_;
};

// Stores rows as they are finished.
template <class T, int count>
class DirectResults {
 public:
  __device__ __forceinline__ DirectResults(const Conv<int32_t> &p, const March &m, const Lane &lane, void *y)
      : simple_(p, lane.k), to_(p, m, lane, y, lane.first_h, lane.first_w) {}

  __device__ __forceinline__ void row(const Conv<int32_t> &p, int32_t row, const float (&sum)[count]) const {
    if (!to_.has(row)) return;
    float v[count];
#pragma unroll
    for (int i = 0; i < count; ++i) v[i] = sum[i];
    if (simple_.any) {
#pragma unroll
      for (int i = 0; i < count; ++i) v[i] = simple_(v[i]);
    }
    to_.store(p, row, v);
  }
  __device__ __forceinline__ void finish_to(const Conv<int32_t> &, const March &, int32_t) const {}

 private:
  const Simple simple_;
  const RowStore<T, count> to_;
};

// Pools windows of 2 x 2, side by side: every second row is stored, the others wait in registers.
template <class T, int count>
class PairResults {
 public:
  __device__ __forceinline__ PairResults(const Conv<int32_t> &p, const March &m, const Lane &lane, void *y)
      : simple_(p, lane.k),
        average_(p.pool.kind == POLYCONV_POOL_AVERAGE),
        to_(p, m, lane, y, lane.result_h, lane.result_w + lane.index * (count / 2)) {}

  __device__ __forceinline__ void row(const Conv<int32_t> &p, int32_t row, const float (&sum)[count]) {
    const bool upper = row % 2 == 0;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const float left = simple_(sum[2 * i]), right = simple_(sum[2 * i + 1]);
      half_[i] = with(upper ? first(left) : with(half_[i], left), right);
    }
    if (upper || !to_.has(row / 2)) return;
    float v[count / 2];
#pragma unroll
    for (int i = 0; i < count / 2; ++i) v[i] = average_ ? multiply(half_[i], 0.25f) : half_[i];
    to_.store(p, row / 2, v);
  }
  __device__ __forceinline__ void finish_to(const Conv<int32_t> &, const March &, int32_t) const {}

 private:
  // As pool_and_put: an average begins with zero.
  __device__ __forceinline__ float first(float v) const {
    return average_ ? add(0.0f, v) : v;
  }
  __device__ __forceinline__ float with(float pooled, float v) const {
    if (average_) return add(pooled, v);
    return pool_better(v, pooled) ? v : pooled;
  }

  const Simple simple_;
  const bool average_;
  const RowStore<T, count / 2> to_;
  float half_[count / 2] = {};
};

// Keeps the last kKept rows of sums of a warp, and finishes each result once its last row is there.
template <int count>
class StagedResults {
 public:
  using Rows = float[kKept][count][kThreads];

  __device__ __forceinline__ StagedResults(const Conv<int32_t> &p, const March &m, const Lane &lane, void *y,
                                           Rows &rows)
      : rows_(rows),
        lane_(lane),
        y_(y),
        first_thread_(static_cast<int32_t>(threadIdx.x) - lane.index),
        first_w_(lane.first_w - lane.index * count),
        next_(lane.result_h),
        end_(lane.active ? min(lane.result_h + m.results_h, p.result.size[3]) : 0) {}

  __device__ __forceinline__ void row(const Conv<int32_t> &, int32_t row, const float (&sum)[count]) const {
#pragma unroll
    for (int i = 0; i < count; ++i) rows_[row & (kKept - 1)][i][threadIdx.x] = sum[i];
  }

  // Stores every result whose rows are all there, up to row `last` of the strip.
  __device__ __forceinline__ void finish_to(const Conv<int32_t> &p, const March &m, int32_t last) {
    __syncwarp();
    const int32_t end_w = min(lane_.result_w + m.results_w, p.result.size[4]);
#pragma unroll 1
    for (; next_ < end_ && last_row(p, m, next_) <= lane_.first_h + last; ++next_)
#pragma unroll 1
      for (int32_t w = lane_.result_w + lane_.index; w < end_w; w += m.width)
        pool_and_put<float>(p, y_, Place<int32_t>{lane_.image, lane_.k, 0, next_, w}, p.output,
                            [&](const Place<int32_t> &at) { return finish(p, kept_sum(m, at), at); });
    __syncwarp();
  }

 private:
  // The position of the last row under the window of result row h.
  __device__ __forceinline__ static int32_t last_row(const Conv<int32_t> &p, const March &m, int32_t h) {
    const int32_t end = h * p.pool.stride[1] - p.pool.pad[1] + p.pool.window[1];
    return (min(end, p.output.size[3]) - 1) * m.step_h;
  }
  __device__ __forceinline__ float kept_sum(const March &m, const Place<int32_t> &at) const {
    const int32_t row = at.h * m.step_h - lane_.first_h, column = at.w * m.step_w - first_w_;
    return rows_[row & (kKept - 1)][column % count][first_thread_ + column / count];
  }

  Rows &rows_;
  const Lane lane_;
  void *const y_;
  const int32_t first_thread_, first_w_;
  int32_t next_;
  const int32_t end_;
};

// From registers or staged, as the launch says.
template <class Direct, class Staged>
class EitherResults {
 public:
  __device__ __forceinline__ EitherResults(const Conv<int32_t> &p, const March &m, const Lane &lane, void *y,
                                           typename Staged::Rows &rows)
      : is_direct_(m.direct), direct_(p, m, lane, y), staged_(p, m, lane, y, rows) {}

  template <int count>
  __device__ __forceinline__ void row(const Conv<int32_t> &p, int32_t row, const float (&sum)[count]) {
    if (is_direct_)
      direct_.row(p, row, sum);
    else
      staged_.row(p, row, sum);
  }
  __device__ __forceinline__ void finish_to(const Conv<int32_t> &p, const March &m, int32_t last) {
    if (!is_direct_) staged_.finish_to(p, m, last);
  }

 private:
  const bool is_direct_;
  Direct direct_;
  Staged staged_;
};

} // namespace polyconv::cuda::shuffle
