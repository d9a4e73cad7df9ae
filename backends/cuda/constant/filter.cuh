// filter.cuh - the kernel of cuda-constant as a template; taps<n>.cu instantiate it for the taps of a pass each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"
#include "stage.cuh"

namespace polyconv::cuda::constant {

// 32,764 bytes of parameters less those beside the weights; and a size that is quick to launch.
inline constexpr int kMostWeights = 7680, kFewWeights = 1280;

// Of one launch: a kernel parameter, so that it lies in the constant bank of its launch and in no other's. One row is
// what a pass over a column of one channel takes: [tap][filter], and of even length, as weights are loaded in pairs.
// Rows follow each other as [group of filters][channel] [filter column][pass].
template <int count, int row>
struct Weights {
  alignas(8) float at[count / row][row];
};

// Neighbouring rows of a column, `vector` of them a load; `from` is aligned for that.
template <int vector, int count>
__device__ inline void load_column(const float *from, float (&to)[count]) {
  struct alignas(4 * vector) Vector {
    float at[vector];
  };
#pragma unroll
  for (int i = 0; i < count; i += vector) {
    const Vector v = *reinterpret_cast<const Vector *>(from + i);
#pragma unroll
    for (int j = 0; j < vector; ++j)
      if (i + j < count) to[i + j] = v.at[j];
  }
}

template <int n, int P>
inline constexpr int kVector = vector_rows(n, P);
template <int n, int K, int P>
inline constexpr int kUnrolled = unrolls(n, {K, P}) ? n : 1;

// One pass of `taps` into the sums, `vector` rows of x a load. A weight is the same for the whole block: one load from
// the constant bank serves P products of 32 lanes. It lies in a uniform register, filled again in each pass, as long as
// lanes never part (see stage.cuh). All of a pass are loaded before its first product, if no branch stands between.
template <int taps, int vector, int K, int P>
__device__ inline void pass(const float *weights, const float *x, float (&sum)[P][K]) {
  float column[P + taps - 1];
  load_column<vector>(x, column);
#pragma unroll
  for (int r = 0; r < taps; ++r)
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < P; ++i) sum[i][k] = fmaf(column[i + r], weights[r * K + k], sum[i][k]);
}

// One channel into the sums: every column of the filter, pass by pass, with the rows of w from `row` on.
template <int n, int K, int P, class W>
__device__ inline void accumulate(const Conv<int32_t> &p, const Launch &launch, const W &w, int32_t &row,
                                  const float *x, float (&sum)[P][K]) {
  const Tiling &t = launch.tile;
  if constexpr (n != 1 && n != 4) { // n x n taps at stride 1
#pragma unroll kUnrolled < n, K, P>
    for (int s = 0; s < n; ++s) pass<n, kVector<n, P>>(w.at[row + s], x + s * t.pitch, sum);
    row += n;
  } else {
    const Passes &passes = launch.passes;
    int32_t phase = 0, offset = passes.offset[0], rows = passes.rows[0];
#pragma unroll 1
    for (int32_t s = 0; s < p.weights.size[4]; ++s) {
#pragma unroll 1
      for (int32_t i = 0; i < passes.count; ++i, ++row) {
        const int32_t next = i + 1 < passes.count ? i + 1 : 0; // where it begins is known before this pass ends
        const int32_t next_offset = passes.offset[next], next_rows = passes.rows[next];
        const float *const weights = w.at[row], *const from = x + offset;
        if (n == 1 || rows == 1)
          pass<1, kVector<n, P>>(weights, from, sum);
        else if (rows == 2)
          pass<2, kVector<n, P>>(weights, from, sum);
        else if (rows == 3)
          pass<3, kVector<n, P>>(weights, from, sum);
        else
          pass<4, kVector<n, P>>(weights, from, sum);
        offset = next_offset, rows = next_rows;
      }
      for (int32_t step = p.dilation[2]; step > 0; --step) { // columns of a phase lie together
        x += t.phase_cols * t.pitch, ++phase;
        if (phase == p.stride[2]) x -= (phase * t.phase_cols - 1) * t.pitch, phase = 0;
      }
    }
  }
}

// Bias, relu, store.
template <int K, int P>
__device__ inline void store_plain(const Conv<int32_t> &p, float *y, float (&sum)[P][K], const Place<int32_t> &at,
                                   int32_t filters) {
  if (p.epilogue.bias) {
    const float *bias = static_cast<const float *>(p.epilogue.bias) + at.c;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const float b = k < filters ? bias[k] : 0.0f;
#pragma unroll
      for (int i = 0; i < P; ++i) sum[i][k] = add(sum[i][k], b);
    }
  }
  if (p.epilogue.activation == POLYCONV_ACT_RELU) {
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < P; ++i) sum[i][k] = sum[i][k] < 0 ? 0.0f : sum[i][k];
  }
  const int64_t row = p.result.stride[3], plane = p.result.stride[1];
  float *to = y + p.result.at(at);
#pragma unroll
  for (int i = 0; i < P; ++i, to += row) {
    if (at.h + i >= p.result.size[3]) return;
    if (filters >= K) {
#pragma unroll
      for (int k = 0; k < K; ++k) to[k * plane] = sum[i][k];
    } else {
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (k < filters) to[k * plane] = sum[i][k];
    }
  }
}

// Everything else, filter by filter: the sums go to shared memory, where the window of a pooled result lies together,
// and the block's threads take a result each.
template <int K, int P>
__device__ inline void store_any(const Conv<int32_t> &p, const Tiling &t, void *y, const float (&sum)[P][K],
                                 float *sums, const Spot &s, int32_t first_filter, int32_t filters) {
  const int32_t of_image = t.stripes * P * t.cols;
  float *mine = sums + s.own_image * of_image + s.own_row * t.cols + s.own_col;
  const int32_t results = t.result_rows * t.result_cols;
#pragma unroll 1
  for (int32_t k = 0; k < filters; ++k) {
    __syncthreads(); // the last readers of shared memory are done
    if (s.active) {
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
      const Place<int32_t> at{s.image + image, first_filter + k, 0, s.result_top + row, s.result_left + col};
      if (at.n >= p.result.size[0] || at.h >= p.result.size[3] || at.w >= p.result.size[4]) continue;
      const float *from = sums + image * of_image;
      const auto sum_at = [&](const Place<int32_t> &o) { return from[(o.h - s.top) * t.cols + o.w - s.left]; };
      pool_and_store<float>(p, y, at, p.output, sum_at);
    }
  }
  __syncthreads();
}

template <int n, int K, int P, int count, bool plain>
__global__ void __maxnreg__(registers(n, Shape{K, P}, plain))
    filter(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Launch launch,
           const __grid_constant__ Weights<count, row_of_weights(n, K)> w, const void *x, void *y) {
  extern __shared__ __align__(16) float tile[];
  const Tiling &t = launch.tile;
  const Spot spot = make_spot(t, P);
  const Area area = make_area(p, launch, spot);
  // Lanes beyond the last stripe compute something as well: divergence would keep weights out of uniform registers.
  const float *mine = tile;
  if (spot.active) mine += spot.own_image * t.image_pitch + spot.own_row + spot.own_col * t.pitch;
  const int32_t all = p.input.size[1];
  int32_t row = 0;
#pragma unroll 1
  for (int32_t group = 0; group < launch.groups; ++group) {
    float sum[P][K] = {};
#pragma unroll 1
    for (int32_t first = 0; first < all; first += t.channels) {
      const int32_t channels = min(t.channels, all - first);
      if (group == 0 || all > t.channels || !plain) {
        if (first > 0 || group > 0) __syncthreads(); // none reads the tile any more
        stage<kVector<n, P>>(p, launch, area, x, tile, first, channels);
        __syncthreads();
      }
#pragma unroll 1
      for (int32_t c = 0; c < channels; ++c) accumulate<n, K, P>(p, launch, w, row, mine + c * t.channel_pitch, sum);
    }
    const int32_t first_filter = launch.first_filter + group * K, filters = min(K, launch.filters - group * K);
    if constexpr (!plain) {
      store_any<K, P>(p, t, y, sum, tile, spot, first_filter, filters);
      continue;
    }
    const Place<int32_t> at{spot.image + spot.own_image, first_filter, 0, spot.top + spot.own_row,
                            spot.left + spot.own_col};
    if (spot.active && at.n < p.result.size[0] && at.w < p.result.size[4])
      store_plain<K, P>(p, static_cast<float *>(y), sum, at, filters);
  }
}

struct Variant {
  Shape shape;
  bool few_weights, plain; // plain: a bias and a relu at most, and no pooling; few_weights only where plain
};

// The kernel for a variant, NULL where there is none. n is the taps of a pass.
template <int n, int i = 0>
const void *find_kernel(const Variant &v) {
  if constexpr (i < kShapeCount) {
    constexpr int K = kShapes[i].filters, P = kShapes[i].rows;
    if (v.shape.filters != K || v.shape.rows != P) return find_kernel<n, i + 1>(v);
    if (!v.plain) return reinterpret_cast<const void *>(&filter<n, K, P, kMostWeights, false>);
    return v.few_weights ? reinterpret_cast<const void *>(&filter<n, K, P, kFewWeights, true>)
                         : reinterpret_cast<const void *>(&filter<n, K, P, kMostWeights, true>);
  }
  return nullptr;
}

} // namespace polyconv::cuda::constant

#define POLYCONV_INSTANCE(n) template const void *constant::find_kernel<n, 0>(const Variant &);
