// march.cuh - the kernel of cuda-shuffle as a template; small.cu and large.cu instantiate it.
//
// A lane owns 4 columns of one input plane and marches down its rows. Each row is read once and goes into n sums of as
// many output rows; the columns left and right of the lane's own come from its neighbours' registers. `width` lanes (8,
// 16 or 32) make a tile, so that small planes share a warp; the first and last lanes of a tile only lend columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "common/instance.hpp"

namespace polyconv::cuda::shuffle {

inline constexpr int kColumns = 4; // of a lane
inline constexpr int kThreads = 128;

// Lanes at each end of a tile that lend all their columns.
__host__ __device__ constexpr int halo_lanes(int columns) {
  return (columns + kColumns - 1) / kColumns;
}
__host__ __device__ constexpr int left_columns(int n) {
  return (n - 1) / 2;
}

struct March {
  int32_t width;           // lanes of a tile
  int32_t tiles_w, strips; // of a plane
  int32_t rows;            // of a strip, counted as if the stride were 1
  int32_t per_input;       // output channels of an input channel
  int32_t vector_loads;    // rows begin at multiples of 4 elements
  int32_t vector_stores;
  int32_t plain; // a bias and a relu at most, and the result has the type of T or is f32
  int64_t tiles;
};

template <class T>
struct alignas(sizeof(T) * kColumns) Four {
  T v[kColumns];
};

__device__ inline float as_stored(float v, float) {
  return v;
}
__device__ inline __half as_stored(float v, __half) {
  return __float2half_rn(v);
}
__device__ inline __nv_bfloat16 as_stored(float v, __nv_bfloat16) {
  return __float2bfloat16_rn(v);
}

template <class T>
__device__ inline void store_row(const March &m, T *to, const bool (&inside)[kColumns], int32_t column_stride,
                                 const float (&v)[kColumns]) {
  if (m.vector_stores && inside[0] && inside[kColumns - 1]) {
    Four<T> four;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) four.v[i] = as_stored(v[i], T());
    *reinterpret_cast<Four<T> *>(to) = four;
    return;
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i)
    if (inside[i]) to[i * column_stride] = as_stored(v[i], T());
}

// Float rows store their own type or f32; images of integers go through the whole epilogue.
template <class T>
inline constexpr bool kFloat = !std::is_integral_v<T>;
template <class T>
using Weight = std::conditional_t<kFloat<T>, T, float>;

template <int n, class T>
__global__ void __launch_bounds__(kThreads, 1)
    march(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ March m, const T *x,
          const Weight<T> *weights, void *y) {
  constexpr int kLeft = left_columns(n), kRight = n - 1 - kLeft;
  constexpr int kLeftLanes = halo_lanes(kLeft), kRightLanes = halo_lanes(kRight);
  constexpr bool kHeld = n <= 7;                      // weights stay in registers
  constexpr int kAhead = n <= 3 ? 4 : n <= 7 ? 2 : 1; // rows loaded before they are needed

  // Whose tile. Lanes beyond the last tile march along, because shuffles need them, and store nothing.
  const int32_t lane = threadIdx.x % m.width;
  const int64_t tile = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / m.width;
  const bool active = tile < m.tiles;
  const int32_t index = active ? static_cast<int32_t>(tile) : 0;
  const int32_t tile_w = index % m.tiles_w, strip = index / m.tiles_w % m.strips;
  const int32_t plane = index / m.tiles_w / m.strips, k = plane % p.output.size[1], image = plane / p.output.size[1];

  // Own columns: input column of element 0, and the output column whose window has it in its middle.
  const int32_t useful = m.width - kLeftLanes - kRightLanes;
  const int32_t out_left = (tile_w * useful + lane - kLeftLanes) * kColumns; // as if the stride were 1
  const int32_t in_left = out_left + kLeft - p.pad[2];
  const bool lends = lane < kLeftLanes || lane >= m.width - kRightLanes;
  int32_t from[kColumns], column = 0;
  bool inside[kColumns];
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int32_t w = in_left + i, size = p.input.size[4];
    const int32_t folded = w >= 0 && w < size ? w : static_cast<int32_t>(sdk::padded_index(w, size, p.pad_mode));
    from[i] = folded < 0 ? -1 : folded * p.input.stride[4];
    const int32_t o = out_left + i;
    inside[i] = active && !lends && o >= 0 && o % p.stride[2] == 0 && o / p.stride[2] < p.output.size[4];
    if (i == 0) column = o / p.stride[2];
  }
  const bool vector =
      m.vector_loads && in_left >= 0 && in_left + kColumns <= p.input.size[4] && in_left % kColumns == 0;
  const float padding = p.template padding<float>();
  const T *const source = x + p.input.at(image, k / m.per_input, 0, 0, 0);

  const int32_t tap = p.weights.at(k, 0, 0, 0, 0);
  const auto weight = [&](int32_t tap, int r, int s) {
    return value(weights[tap + r * p.weights.stride[3] + s * p.weights.stride[4]]);
  };
  float held[kHeld ? n * n : 1];
  if constexpr (kHeld) {
#pragma unroll
    for (int i = 0; i < n * n; ++i) held[i] = weight(tap, i / n, i % n);
  }

  float sum[n][kColumns] = {}; // sum[j] is complete after j more rows
  const int32_t first_out = strip * m.rows, first_in = first_out - p.pad[1];
  struct Rows {
    Four<T> four[kAhead];
    bool real[kAhead];
  };
  const auto fetch = [&](int32_t begin) {
    Rows rows;
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int32_t h = first_in + begin + a, size = p.input.size[3];
      const int32_t row = h >= 0 && h < size ? h : static_cast<int32_t>(sdk::padded_index(h, size, p.pad_mode));
      rows.real[a] = row >= 0;
      const T *const line = source + max(row, 0) * p.input.stride[3];
      if (vector) {
        rows.four[a] = *reinterpret_cast<const Four<T> *>(line + in_left);
      } else {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) rows.four[a].v[i] = line[max(from[i], 0)];
      }
    }
    return rows;
  };
  Rows next = fetch(0);
#pragma unroll 1
  for (int32_t begin = 0; begin < m.rows + n - 1; begin += kAhead) {
    const Rows rows = next;
    if (begin + kAhead < m.rows + n - 1) next = fetch(begin + kAhead); // under way while these are summed
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      float v[kLeft + kColumns + kRight];
#pragma unroll
      for (int i = 0; i < kColumns; ++i)
        v[kLeft + i] = rows.real[a] && from[i] >= 0 ? operand<float>(rows.four[a].v[i], 0) : padding;
#pragma unroll
      for (int i = 1; i <= kLeft; ++i) { // i columns to the left of the lane's first
        const int lanes = (i + kColumns - 1) / kColumns;
        v[kLeft - i] = __shfl_up_sync(0xffffffffu, v[kLeft + lanes * kColumns - i], lanes, m.width);
      }
#pragma unroll
      for (int i = 0; i < kRight; ++i) // i columns to the right of its last
        v[kLeft + kColumns + i] = __shfl_down_sync(0xffffffffu, v[kLeft + i % kColumns], i / kColumns + 1, m.width);

      int32_t tap_now = tap;
      if constexpr (!kHeld) asm volatile("" : "+r"(tap_now)); // or the compiler would hold n x n addresses, and spill
#pragma unroll
      for (int s = 0; s < n; ++s) {
        if constexpr (!kHeld) __syncwarp(); // or weights of all columns at once
#pragma unroll
        for (int j = 0; j < n; ++j) {
          float w;
          if constexpr (kHeld)
            w = held[(n - 1 - j) * n + s];
          else
            w = weight(tap_now, n - 1 - j, s);
#pragma unroll
          for (int i = 0; i < kColumns; ++i) {
            const float before = s > 0 ? sum[j][i] : j + 1 < n ? sum[j + 1 < n ? j + 1 : 0][i] : 0.0f;
            sum[j][i] = fmaf(v[i + s], w, before);
          }
        }
      }

      const int32_t done = begin + a - (n - 1), o = first_out + done;
      if (done < 0 || done >= m.rows || o % p.stride[1] != 0 || o / p.stride[1] >= p.output.size[3]) continue;
      const Place<int32_t> at{image, k, 0, o / p.stride[1], column};
      if constexpr (kFloat<T>) {
        if (m.plain) {
          float result[kColumns];
          const float bias = p.epilogue.bias ? static_cast<const float *>(p.epilogue.bias)[k] : 0;
          const bool relu = p.epilogue.activation == POLYCONV_ACT_RELU;
#pragma unroll
          for (int i = 0; i < kColumns; ++i) {
            const float sum_and_bias = p.epilogue.bias ? add(sum[0][i], bias) : sum[0][i];
            result[i] = relu && sum_and_bias < 0 ? 0.0f : sum_and_bias;
          }
          if (p.stride[2] == 1) {
            const int32_t to = p.result.at(at);
            if (p.epilogue.result_type == POLYCONV_F32)
              store_row(m, static_cast<float *>(y) + to, inside, p.result.stride[4], result);
            else
              store_row(m, static_cast<T *>(y) + to, inside, p.result.stride[4], result);
            continue;
          }
        }
      }
#pragma unroll 1
      for (int i = 0; i < kColumns; ++i) {
        const bool mine = i == 0 ? inside[0] : i == 1 ? inside[1] : i == 2 ? inside[2] : inside[3];
        const float value = i == 0 ? sum[0][0] : i == 1 ? sum[0][1] : i == 2 ? sum[0][2] : sum[0][3];
        Place<int32_t> one = at;
        one.w = (out_left + i) / p.stride[2];
        if (mine) finish_and_store(p, y, value, one);
      }
    }
  }
}

using LaunchFunction = void (*)(const Conv<int32_t> &p, const March &m, const void *x, const void *weights, void *y,
                                cudaStream_t stream);

template <int n, class T>
void launch_march(const Conv<int32_t> &p, const March &m, const void *x, const void *weights, void *y,
                  cudaStream_t stream) {
  march<n, T><<<blocks_for(m.tiles * m.width, kThreads), kThreads, 0, stream>>>(
      p, m, static_cast<const T *>(x), static_cast<const Weight<T> *>(weights), y);
  check_launch("cuda-shuffle/shuffle");
}

template <int n>
LaunchFunction by_type(int32_t type) {
  switch (type) {
    case POLYCONV_F32: return launch_march<n, float>;
    case POLYCONV_F16: return launch_march<n, __half>;
    case POLYCONV_BF16: return launch_march<n, __nv_bfloat16>;
    case POLYCONV_U8: return launch_march<n, uint8_t>;
    case POLYCONV_U16: return launch_march<n, uint16_t>;
    default: return nullptr;
  }
}

// The instance for a filter's size and the input's type, NULL where there is none.
LaunchFunction find_small(int64_t n, int32_t type); // 1 to 7
LaunchFunction find_large(int64_t n, int32_t type); // 8 to 15

} // namespace polyconv::cuda::shuffle
