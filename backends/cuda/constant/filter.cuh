// filter.cuh - the kernel of cuda-constant as a template; taps<n>.cu instantiate it for the taps of a pass each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/async.cuh"
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "tiling.hpp"

namespace polyconv::cuda::constant {

// 32,764 bytes of parameters less those beside the weights; and a size that is quick to launch.
inline constexpr int kMostWeights = 7680, kFewWeights = 1280;

// Of one launch: a kernel parameter, so that it lies in the constant bank of its launch and in no other's. One row is
// what a pass over a column of one channel takes: [tap][filter]. Rows follow each other as [group of filters][channel]
// [filter column][pass].
template <int count, int row>
struct Weights {
  alignas(8) float at[count / row][row];
};

struct Launch {
  Tiling tile;
  Passes passes;
  int32_t first_filter, filters; // of this launch
  int32_t groups;                // of K filters, one after the other
  int32_t input_type;
};

// Stages one phase of one channel and image, whose element (0, 0) is `origin`: element (row, col) is input
// (top + row * stride, left + col * stride) and goes to to[col * pitch + row]. Eight lanes take a row, so that those of
// a warp write to few banks twice. f32 is copied asynchronously; the rest, and the padding, passes through registers.
// Offsets are unsigned: beyond the border they may wrap, and are not used.
__device__ inline void stage_phase(const Conv<int32_t> &p, const Launch &launch, const void *x, uint32_t origin,
                                   float *to, int32_t top, int32_t left) {
  constexpr int32_t kLanes = 8;
  const Tiling &t = launch.tile;
  const int32_t own_col = threadIdx.x % kLanes, step = kLanes * p.stride[2], right = left + t.phase_cols * p.stride[2];
  const uint32_t row_pitch = p.input.stride[3], col_pitch = p.input.stride[4];
  const bool is_f32 = launch.input_type == POLYCONV_F32;
#pragma unroll 1
  for (int32_t row = threadIdx.x / kLanes; row < t.rows; row += blockDim.x / kLanes) {
    const int32_t h = top + row * p.stride[1];
    const bool copied = is_f32 && static_cast<uint32_t>(h) < static_cast<uint32_t>(p.input.size[3]);
    int32_t w = left + own_col * p.stride[2];
    uint32_t at = origin + h * row_pitch + w * col_pitch;
    float *cell = to + own_col * t.pitch + row;
#pragma unroll 1
    for (; w < right; w += step, at += step * col_pitch, cell += kLanes * t.pitch) {
      if (copied && static_cast<uint32_t>(w) < static_cast<uint32_t>(p.input.size[4])) {
        copy_async<4>(cell, static_cast<const float *>(x) + at, true);
        continue;
      }
      const int32_t in_h = sdk::padded_index_in<int32_t>(h, p.input.size[3], p.pad_mode);
      const int32_t in_w = sdk::padded_index_in<int32_t>(w, p.input.size[4], p.pad_mode);
      const uint32_t from = origin + in_h * row_pitch + in_w * col_pitch;
      *cell = in_h < 0 || in_w < 0 ? p.padding<float>() : load<float>(x, launch.input_type, from);
    }
  }
}

// Stages `channels` of the block's input from `first` on.
__device__ inline void stage(const Conv<int32_t> &p, const Launch &launch, const void *x, float *slot, int32_t n,
                             int32_t top, int32_t left, int32_t first) {
  const Tiling &t = launch.tile;
  const int32_t channels = min(t.channels, p.input.size[1] - first), images = min(t.images, p.input.size[0] - n);
  for (int32_t c = 0; c < channels; ++c)
    for (int32_t image = 0; image < images; ++image) {
      const uint32_t from = p.input.at(n + image, first + c, 0, 0, 0);
      float *const to = slot + c * t.channel_pitch + image * t.image_pitch;
      for (int32_t i = 0; i < t.row_phases; ++i)
        for (int32_t j = 0; j < t.col_phases; ++j)
          stage_phase(p, launch, x, from, to + i * t.phase_rows + j * t.phase_cols * t.pitch, top + i, left + j);
    }
}

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

// One pass into the sums. A weight is the same for the whole block: one load from the constant bank serves P products
// of 32 lanes. It lies in a uniform register where the passes are unrolled and in a register of each lane where they
// loop.
template <int n, int K, int P>
__device__ inline void pass(const float (&weights)[n * K], const float *x, int32_t rows, float (&sum)[P][K]) {
  float column[P + n - 1];
  load_column<kVector<n, P>>(x, column);
#pragma unroll
  for (int r = 0; r < n; ++r) {
    if (n == 4 && r >= rows) break;
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < P; ++i) sum[i][k] = fmaf(column[i + r], weights[r * K + k], sum[i][k]);
  }
}

// One channel into the sums: every column of the filter, pass by pass, with the rows of w from `row` on.
template <int n, int K, int P, class W>
__device__ inline void accumulate(const Conv<int32_t> &p, const Launch &launch, const W &w, int32_t &row,
                                  const float *x, float (&sum)[P][K]) {
  const Tiling &t = launch.tile;
  if constexpr (n != 1 && n != 4) { // n x n taps at stride 1
#pragma unroll kUnrolled < n, K, P>
    for (int s = 0; s < n; ++s) pass<n, K, P>(w.at[row + s], x + s * t.pitch, n, sum);
    row += n;
  } else {
    int32_t phase = 0;
#pragma unroll 1
    for (int32_t s = 0; s < p.weights.size[4]; ++s) {
#pragma unroll 1
      for (int32_t i = 0; i < launch.passes.count; ++i, ++row)
        pass<n, K, P>(w.at[row], x + launch.passes.offset[i], launch.passes.rows[i], sum);
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

// Where a block and a thread of it work.
struct Spot {
  int32_t image, top, left;            // of the block: first image, output row and column
  int32_t result_top, result_left;     // its first result
  int32_t own_image, own_row, own_col; // of the thread, counted from there
  bool active;
};

__device__ inline Spot make_spot(const Tiling &t, int32_t rows_a_thread) {
  Spot s;
  const int32_t tile_w = blockIdx.x % t.tiles_w, rest = blockIdx.x / t.tiles_w, tile_h = rest % t.tiles_h;
  s.image = rest / t.tiles_h * t.images;
  s.top = t.first_row + tile_h * t.row_step, s.left = t.first_col + tile_w * t.col_step;
  s.result_top = tile_h * t.result_rows, s.result_left = tile_w * t.result_cols;
  const int32_t stripe = static_cast<int32_t>(threadIdx.x) * t.per_cols >> 20;
  s.own_image = stripe * t.per_stripes >> 20;
  s.own_row = (stripe - s.own_image * t.stripes) * rows_a_thread;
  s.own_col = static_cast<int32_t>(threadIdx.x) - stripe * t.cols;
  s.active = s.own_image < t.images;
  return s;
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
           const __grid_constant__ Weights<count, n * K> w, const void *x, void *y) {
  extern __shared__ __align__(16) float tile[];
  const Tiling &t = launch.tile;
  const Spot spot = make_spot(t, P);
  const int32_t top = spot.top * p.stride[1] - p.pad[1], left = spot.left * p.stride[2] - p.pad[2];
  // Lanes beyond the last stripe compute something as well: divergence would keep weights out of uniform registers.
  const float *mine = tile;
  if (spot.active) mine += spot.own_image * t.image_pitch + spot.own_row + spot.own_col * t.pitch;
  const int32_t channels = p.input.size[1];
  int32_t row = 0;
#pragma unroll 1
  for (int32_t group = 0; group < launch.groups; ++group) {
    if (group == 0 || channels > t.channels || !plain) stage(p, launch, x, tile, spot.image, top, left, 0);
    float sum[P][K] = {};
#pragma unroll 1
    for (int32_t first = 0, slot = 0; first < channels; first += t.channels) {
      const int32_t next = first + t.channels < channels ? first + t.channels : 0;
      await_copies();
      __syncthreads(); // all see these channels, and none reads the slot of those before any more
      const float *const now = mine + slot * t.slot;
      if (t.slots == 2) {
        slot = 1 - slot;
        if (next) stage(p, launch, x, tile + slot * t.slot, spot.image, top, left, next);
      }
      const int32_t staged = min(t.channels, channels - first);
#pragma unroll 1
      for (int32_t c = 0; c < staged; ++c) accumulate<n, K, P>(p, launch, w, row, now + c * t.channel_pitch, sum);
      if (t.slots == 1 && next) {
        __syncthreads();
        stage(p, launch, x, tile, spot.image, top, left, next);
      }
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
    if (channels > t.channels) __syncthreads(); // the next group stages anew
  }
}

struct Variant {
  Shape shape;
  bool few_weights, plain; // plain: a bias and a relu at most, and no pooling; few_weights only where plain
};

// The kernel for a variant, NULL where there is none. n is the taps of a pass.
template <int n>
const void *find_kernel(const Variant &variant);

template <int n, int i = 0>
const void *find_among(const Variant &v) {
  if constexpr (i < kShapeCount) {
    constexpr int K = kShapes[i].filters, P = kShapes[i].rows;
    if (v.shape.filters != K || v.shape.rows != P) return find_among<n, i + 1>(v);
    if (!v.plain) return reinterpret_cast<const void *>(&filter<n, K, P, kMostWeights, false>);
    return v.few_weights ? reinterpret_cast<const void *>(&filter<n, K, P, kFewWeights, true>)
                         : reinterpret_cast<const void *>(&filter<n, K, P, kMostWeights, true>);
  }
  return nullptr;
}

// In the one file that instantiates the kernels for n taps a pass.
#define POLYCONV_CONSTANT_TAPS(n)                      \
  template <>                                          \
  const void *find_kernel<n>(const Variant &variant) { \
    return find_among<n>(variant);                     \
  }

} // namespace polyconv::cuda::constant
