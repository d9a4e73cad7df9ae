// filter.cuh - the kernel of cuda-constant as a template; taps<n>.cu instantiate it for a filter size each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "tiling.hpp"

namespace polyconv::cuda::constant {

// 32,764 bytes of parameters less those beside the weights.
inline constexpr int kMostWeights = 7680;

// [channel][s][r][filter], a kernel parameter: it lies in the constant bank of its launch and in no other's.
template <int count>
struct Weights {
  float at[count];
};

struct Launch {
  Tiling tile;
  int32_t first_filter, filters; // of this launch
  int32_t input_type;
  int32_t plain; // a bias and a relu at most, and no pooling: stored from registers
};

// An instance of the kernel: launches it with weights from host memory.
using LaunchFunction = void (*)(const Conv<int32_t> &p, const Launch &launch, const float *weights, const void *x,
                                void *y, cudaStream_t stream);

// The instance for a number of filters and rows a thread, NULL where there is none. n is the filter's size, 0 any size
// at any stride and dilation.
template <int n>
LaunchFunction find_instance(int filters, int rows, bool one_channel);

// The input coordinate, or -1 for padding.
__device__ inline int32_t folded(int32_t i, int32_t size, int32_t mode) {
  if (i >= 0 && i < size) return i;
  return static_cast<int32_t>(sdk::padded_index(i, size, mode));
}

// Stages a channel of the block's input as f32. A warp takes a row at a time.
template <class Stored>
__device__ inline void stage(const Conv<int32_t> &p, const Tiling &t, const Stored *x, float *tile, int32_t n,
                             int32_t top, int32_t left, int32_t channel) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const float padding = p.padding<float>();
  const int32_t rows = t.images * t.in_rows;
  for (int32_t row = threadIdx.x / 32; row < rows; row += warps) {
    const int32_t image = n + row / t.in_rows;
    if (image >= p.input.size[0]) continue;
    const int32_t h = folded(top + row % t.in_rows, p.input.size[3], p.pad_mode);
    const Stored *from = x + p.input.at(image, channel, 0, max(h, 0), 0);
    float *to = tile + row * t.pitch;
#pragma unroll(sizeof(Stored) == 4 ? 4 : 1)
    for (int32_t i = lane; i < t.in_cols; i += 32) {
      const int32_t w = folded(left + i, p.input.size[4], p.pad_mode);
      to[i] = h >= 0 && w >= 0 ? operand<float>(from[w * p.input.stride[4]], 0) : padding;
    }
  }
}

__device__ inline void stage_typed(const Conv<int32_t> &p, const Launch &launch, const void *x, float *tile, int32_t n,
                                   int32_t top, int32_t left, int32_t channel) {
  const Tiling &t = launch.tile;
  switch (launch.input_type) {
    case POLYCONV_F32: return stage(p, t, static_cast<const float *>(x), tile, n, top, left, channel);
    case POLYCONV_F16: return stage(p, t, static_cast<const __half *>(x), tile, n, top, left, channel);
    case POLYCONV_BF16: return stage(p, t, static_cast<const __nv_bfloat16 *>(x), tile, n, top, left, channel);
    case POLYCONV_U8: return stage(p, t, static_cast<const uint8_t *>(x), tile, n, top, left, channel);
    default: return stage(p, t, static_cast<const uint16_t *>(x), tile, n, top, left, channel);
  }
}

// One channel into the sums. `w` indexes the constant bank. A column of inputs is loaded once for all rows of taps.
template <int n, int K, int P, class W>
__device__ inline void accumulate(const Conv<int32_t> &p, const W &w, int32_t first, const float *x, int32_t pitch,
                                  float (&sum)[P][K]) {
  if constexpr (n > 0) {
#pragma unroll
    for (int s = 0; s < n; ++s) {
      float column[P + n - 1];
#pragma unroll
      for (int i = 0; i < P + n - 1; ++i) column[i] = x[i * pitch + s];
#pragma unroll
      for (int r = 0; r < n; ++r)
#pragma unroll
        for (int k = 0; k < K; ++k)
#pragma unroll
          for (int i = 0; i < P; ++i) sum[i][k] = fmaf(column[i + r], w.at[first + (s * n + r) * K + k], sum[i][k]);
    }
  } else {
    const int32_t rows = p.weights.size[3], cols = p.weights.size[4];
    int32_t tap = first;
    for (int32_t s = 0; s < cols; ++s) {
#pragma unroll 1
      for (int32_t r = 0; r < rows; ++r, tap += K) {
        const float *from = x + r * p.dilation[1] * pitch + s * p.dilation[2];
        float column[P];
#pragma unroll
        for (int i = 0; i < P; ++i) column[i] = from[i * p.stride[1] * pitch];
#pragma unroll
        for (int k = 0; k < K; ++k)
#pragma unroll
          for (int i = 0; i < P; ++i) sum[i][k] = fmaf(column[i], w.at[tap + k], sum[i][k]);
      }
    }
  }
}

// Bias, relu, store.
template <int K, int P>
__device__ inline void store_plain(const Conv<int32_t> &p, const Launch &launch, float *y, const float (&sum)[P][K],
                                   const Place<int32_t> &at) {
  const auto *bias = static_cast<const float *>(p.epilogue.bias);
  const bool relu = p.epilogue.activation == POLYCONV_ACT_RELU;
  float *to = y + p.result.at(at);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (k >= launch.filters) break;
    const float b = bias ? bias[launch.first_filter + k] : 0;
#pragma unroll
    for (int i = 0; i < P; ++i) {
      const float v = bias ? add(sum[i][k], b) : sum[i][k];
      if (at.h + i < p.result.size[3]) to[i * p.result.stride[3]] = relu && v < 0 ? 0.0f : v;
    }
    to += p.result.stride[1];
  }
}

// Everything else, filter by filter: the sums go to shared memory, where the window of a pooled result lies together,
// and the block's threads take a result each.
template <int K, int P>
__device__ inline void store_any(const Conv<int32_t> &p, const Launch &launch, void *y, const float (&sum)[P][K],
                                 float *sums, bool active, int32_t n, int32_t top, int32_t left, int32_t result_top,
                                 int32_t result_left) {
  const Tiling &t = launch.tile;
  const int32_t stripe = threadIdx.x / t.cols, rows = t.groups * P; // stripes of all images, one below the other
  float *mine = sums + stripe * P * t.cols + threadIdx.x % t.cols;
  const int32_t results = t.result_rows * t.result_cols;
#pragma unroll 1
  for (int32_t k = 0; k < launch.filters; ++k) {
    __syncthreads(); // the last readers of shared memory are done
    if (active) {
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (j == k) {
#pragma unroll
          for (int i = 0; i < P; ++i) mine[i * t.cols] = sum[i][j];
        }
    }
    __syncthreads();
    for (int32_t i = threadIdx.x; i < results * t.images; i += blockDim.x) {
      const int32_t image = i / results, row = i % results / t.result_cols, col = i % t.result_cols;
      const Place<int32_t> at{n + image, launch.first_filter + k, 0, result_top + row, result_left + col};
      if (at.n >= p.result.size[0] || at.h >= p.result.size[3] || at.w >= p.result.size[4]) continue;
      const float *of_image = sums + image * rows * t.cols;
      const auto sum_at = [&](const Place<int32_t> &o) { return of_image[(o.h - top) * t.cols + o.w - left]; };
      pool_and_store<float>(p, y, at, p.output, sum_at);
    }
  }
}

template <int n, int K, int P, int count>
__global__ void __launch_bounds__(kMaxThreads, 1) // no more blocks: ptxas would spill for them
    filter(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Launch launch,
           const __grid_constant__ Weights<count> w, const void *x, void *y) {
  extern __shared__ float tile[];
  const Tiling &t = launch.tile;
  const int32_t tile_w = blockIdx.x % t.tiles_w, rest = blockIdx.x / t.tiles_w;
  const int32_t tile_h = rest % t.tiles_h, image = rest / t.tiles_h * t.images;
  const int32_t top = t.first_row + tile_h * t.row_step, left = t.first_col + tile_w * t.col_step;
  const int32_t stripe = threadIdx.x / t.cols, col = threadIdx.x % t.cols; // of all images
  const bool active = stripe < t.groups * t.images;
  const int32_t row = stripe / t.groups * t.in_rows + stripe % t.groups * P * p.stride[1];
  // Lanes beyond the last stripe compute something as well: divergence would keep weights out of uniform registers.
  const float *mine = tile + (active ? row * t.pitch + col * p.stride[2] : 0);
  const int32_t filter_taps = (n > 0 ? n * n : p.weights.size[3] * p.weights.size[4]) * K;

  float sum[P][K] = {};
  const int32_t channels = p.input.size[1];
  const int32_t in_top = top * p.stride[1] - p.pad[1], in_left = left * p.stride[2] - p.pad[2];
#pragma unroll 1
  for (int32_t c = 0; c < channels; ++c) { // nothing conditional: it would keep weights out of uniform registers
    __syncthreads();
    stage_typed(p, launch, x, tile, image, in_top, in_left, c);
    __syncthreads();
    accumulate<n, K, P>(p, w, (n > 0 && count == n * n * K ? 0 : c) * filter_taps, mine, t.pitch, sum);
  }

  if (!launch.plain)
    return store_any<K, P>(p, launch, y, sum, tile, active, image, top, left, tile_h * t.result_rows,
                           tile_w * t.result_cols);
  const Place<int32_t> at{image + stripe / t.groups, launch.first_filter, 0, top + stripe % t.groups * P, left + col};
  if (!active || at.n >= p.result.size[0] || at.w >= p.result.size[4] || at.h >= p.result.size[3]) return;
  store_plain<K, P>(p, launch, static_cast<float *>(y), sum, at);
}

template <int n, int K, int P, int count>
void launch_filter(const Conv<int32_t> &p, const Launch &launch, const float *weights, const void *x, void *y,
                   cudaStream_t stream) {
  Weights<count> w;
  const int64_t used = int64_t{p.input.size[1]} * p.weights.size[3] * p.weights.size[4] * K;
  std::copy(weights, weights + used, w.at);
  std::fill(w.at + used, w.at + count, 0.0f);
  const Tiling &t = launch.tile;
  filter<n, K, P, count>
      <<<static_cast<unsigned>(t.blocks), t.threads(), static_cast<size_t>(t.shared_bytes()), stream>>>(p, launch, w, x,
                                                                                                        y);
  check_launch("cuda-constant/constant");
}

template <int n, int K, int P>
LaunchFunction either(bool one_channel) {
  if constexpr (n > 0) {
    if (one_channel) return launch_filter<n, K, P, n * n * K>;
  }
  return launch_filter<n, K, P, kMostWeights>;
}

template <int n, int P>
LaunchFunction by_filters(int filters, bool one_channel) {
  switch (filters) {
    case 1: return either<n, 1, P>(one_channel);
    case 4: return either<n, 4, P>(one_channel);
    case 8: return either<n, 8, P>(one_channel);
    default: break;
  }
  if constexpr (P == 4) { // more sums than these would leave too few warps
    switch (filters) {
      case 10: return either<n, 10, P>(one_channel);
      case 12: return either<n, 12, P>(one_channel);
      case 16: return either<n, 16, P>(one_channel);
      default: break;
    }
  }
  return nullptr;
}

// In the one file that instantiates a filter size.
#define POLYCONV_CONSTANT_TAPS(n)                                            \
  template <>                                                                \
  LaunchFunction find_instance<n>(int filters, int rows, bool one_channel) { \
    return rows == 4   ? by_filters<n, 4>(filters, one_channel)              \
           : rows == 8 ? by_filters<n, 8>(filters, one_channel)              \
                       : nullptr;                                            \
  }

} // namespace polyconv::cuda::constant
