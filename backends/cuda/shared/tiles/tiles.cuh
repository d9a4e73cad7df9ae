// tiles.cuh - the kernel of cuda-shared/tiles as a template; tiles_<n>.cu instantiate it for a filter size each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"
#include "tiles/patch.hpp"

namespace polyconv::cuda::shared {

// Where a block's outputs lie.
struct Origin {
  int32_t image, group, channel; // first of each; channel counts within the group
  int32_t top, left;             // outputs before pooling
  int32_t result_top, result_left;
};

template <int channels>
__device__ inline Origin origin_of(const Conv<int32_t> &p, const Patch &s) {
  auto block = static_cast<int32_t>(blockIdx.x); // neighbouring blocks read the same inputs
  Origin o;
  o.channel = block % s.channel_blocks * channels, block /= s.channel_blocks;
  const int32_t w = block % s.tiles_w;
  block /= s.tiles_w;
  const int32_t h = block % s.tiles_h;
  block /= s.tiles_h;
  o.group = block % p.groups, o.image = block / p.groups * s.images;
  o.top = s.first_row + h * s.row_step, o.left = s.first_column + w * s.column_step;
  o.result_top = h * s.result_rows, o.result_left = w * s.result_columns;
  return o;
}

// The input coordinate, or -1 for padding.
__device__ inline int32_t folded(int32_t i, int32_t size, int32_t mode) {
  if (i >= 0 && i < size) return i;
  return static_cast<int32_t>(sdk::padded_index(i, size, mode));
}

// `count` channels at one place of the tile; `stride` and `step` are from channel to channel in the input and in the
// tile.
template <class Stored>
__device__ inline void stage_place(const Stored *from, int32_t stride, float *to, int32_t step, int32_t count) {
  if constexpr (std::is_same_v<Stored, float>) {
#pragma unroll 2
    for (int32_t c = 0; c < count; ++c, from += stride, to += step) copy_async<4>(to, from, true);
  } else { // several loads under way before the first is waited for
    constexpr int kAhead = 4;
    for (; count > 0; count -= kAhead, from += kAhead * stride, to += kAhead * step) {
      Stored v[kAhead] = {};
#pragma unroll
      for (int32_t c = 0; c < kAhead; ++c)
        if (c < count) v[c] = from[c * stride];
#pragma unroll
      for (int32_t c = 0; c < kAhead; ++c)
        if (c < count) to[c * step] = operand<float>(v[c], 0);
    }
  }
}

// Stages input channels [first, first + count) of a group as f32. A thread keeps to a column of the tile, and asks once
// a row, not once a channel, where that lies.
template <class Stored>
__device__ inline void stage_inputs(const Conv<int32_t> &p, const Patch &s, const Stored *x, float *tile,
                                    const Origin &o, int32_t first, int32_t count) {
  const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
  const int32_t top = o.top * p.stride[1] - p.pad[1], left = o.left * p.stride[2] - p.pad[2];
  const int32_t side = min(threads, s.pitch), rows = s.images * s.tile_rows, rows_on = threads / side;
  const int32_t pitch = s.pitch, plane = s.plane, tile_rows = s.tile_rows, step = s.images * plane; // in registers
  const int32_t stride = p.input.stride[1], height = p.input.size[3], mode = p.pad_mode;
  const int32_t image_stride = p.input.stride[0], row_stride = p.input.stride[3], images = p.input.size[0] - o.image;
  const float padding = p.padding<float>();
  if (thread >= rows_on * side) return;
  for (int32_t column = thread % side; column < pitch; column += side) {
    const int32_t w = folded(left + column, p.input.size[4], mode);
    const Stored *const above = x + p.input.at(o.image, o.group * s.group_in + first, 0, 0, max(w, 0));
    for (int32_t row = thread / side; row < rows; row += rows_on) {
      const int32_t image = row / tile_rows, line = row - image * tile_rows, h = folded(top + line, height, mode);
      float *to = tile + image * plane + line * pitch + column;
      if (w >= 0 && h >= 0 && image < images)
        stage_place(above + image * image_stride + h * row_stride, stride, to, step, count);
      else
        for (int32_t c = 0; c < count; ++c, to += step) *to = padding;
    }
  }
}

// Their weights, [channel][s][r][output channel], zeros beyond the group's last.
template <int channels, class Stored>
__device__ inline void stage_weights(const Conv<int32_t> &p, const Patch &s, const Stored *w, float *staged,
                                     const Origin &o, int32_t first, int32_t count) {
  const int32_t rows = p.weights.size[3], taps = rows * p.weights.size[4], present = s.group_out - o.channel;
  const int32_t stride_k = p.weights.stride[0], stride_c = p.weights.stride[1];
  const int32_t stride_r = p.weights.stride[3], stride_s = p.weights.stride[4], threads = blockDim.x;
  const Stored *const begin = w + p.weights.at(o.group * s.group_out + o.channel, first, 0, 0, 0);
  for (int32_t i = threadIdx.x; i < count * taps * channels; i += threads) {
    const int32_t k = i % channels, c = i / channels / taps, tap = i / channels - c * taps, column = tap / rows;
    const Stored *from =
        begin + (k < present ? k * stride_k : 0) + c * stride_c + (tap - column * rows) * stride_r + column * stride_s;
    if constexpr (std::is_same_v<Stored, float>)
      copy_async<4>(staged + i, from, k < present);
    else
      staged[i] = k < present ? operand<float>(*from, 0) : 0.0f;
  }
}

// A chunk of channels into a buffer: the weights first, so that vectors of them are aligned.
template <int channels, class In, class Weight>
__device__ inline void stage_chunk(const Conv<int32_t> &p, const Patch &s, const void *x, const void *w, float *buffer,
                                   const Origin &o, int32_t first) {
  const int32_t count = min(s.chunk, s.group_in - first);
  float *tile = buffer + s.chunk * p.weights.size[3] * p.weights.size[4] * channels;
  stage_inputs(p, s, static_cast<const In *>(x), tile, o, first, count);
  stage_weights<channels>(p, s, static_cast<const Weight *>(w), buffer, o, first, count);
}

// The same for types other than f32. Not inlined: a lot of code, called once for hundreds of products.
template <int channels>
__device__ __noinline__ void stage_any(const Conv<int32_t> *p, const Patch *s, const void *x, const void *w,
                                       float *buffer, Origin o, int32_t first) {
  switch (s->input_type) {
    case POLYCONV_F16: return stage_chunk<channels, __half, __half>(*p, *s, x, w, buffer, o, first);
    case POLYCONV_BF16: return stage_chunk<channels, __nv_bfloat16, __nv_bfloat16>(*p, *s, x, w, buffer, o, first);
    case POLYCONV_U8: return stage_chunk<channels, uint8_t, float>(*p, *s, x, w, buffer, o, first);
    default: return stage_chunk<channels, uint16_t, float>(*p, *s, x, w, buffer, o, first);
  }
}

// The weights of one tap for a thread's output channels, which all threads read alike.
template <int channels>
__device__ inline void read_weights(const float *from, float (&w)[channels]) {
  if constexpr (channels % 4 == 0) {
#pragma unroll
    for (int k = 0; k < channels; k += 4) {
      const float4 four = *reinterpret_cast<const float4 *>(from + k);
      w[k] = four.x, w[k + 1] = four.y, w[k + 2] = four.z, w[k + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int k = 0; k < channels; ++k) w[k] = from[k];
  }
}

// One channel into the sums. With n, a column of inputs is loaded once for all rows of taps.
template <int n, int outputs, int channels>
__device__ inline void accumulate(const Conv<int32_t> &p, const float *weights, const float *x, int32_t pitch,
                                  float (&sum)[outputs][channels]) {
  float w[channels];
  if constexpr (n > 0) {
#pragma unroll
    for (int s = 0; s < n; ++s) {
      float column[outputs + n - 1];
#pragma unroll
      for (int i = 0; i < outputs + n - 1; ++i) column[i] = x[i * pitch + s];
#pragma unroll
      for (int r = 0; r < n; ++r) {
        read_weights(weights + (s * n + r) * channels, w);
#pragma unroll
        for (int i = 0; i < outputs; ++i)
#pragma unroll
          for (int k = 0; k < channels; ++k) sum[i][k] = fmaf(column[i + r], w[k], sum[i][k]);
      }
    }
  } else {
    for (int32_t s = 0; s < p.weights.size[4]; ++s)
#pragma unroll 1
      for (int32_t r = 0; r < p.weights.size[3]; ++r, weights += channels) {
        read_weights(weights, w);
        const float *from = x + r * p.dilation[1] * pitch + s * p.dilation[2];
#pragma unroll
        for (int i = 0; i < outputs; ++i) {
          const float v = from[i * p.stride[1] * pitch];
#pragma unroll
          for (int k = 0; k < channels; ++k) sum[i][k] = fmaf(v, w[k], sum[i][k]);
        }
      }
  }
}

__device__ inline void put(float v, float *to) {
  *to = v;
}
__device__ inline void put(float v, __half *to) {
  *to = __float2half_rn(v);
}
__device__ inline void put(float v, __nv_bfloat16 *to) {
  *to = __float2bfloat16_rn(v);
}

// Bias, relu, store.
template <int outputs, int channels, class Result>
__device__ inline void store_plain(const Conv<int32_t> &p, Result *y, const float (&sum)[outputs][channels],
                                   const Place<int32_t> &at, int32_t present) {
  const auto *bias = static_cast<const float *>(p.epilogue.bias);
  const bool relu = p.epilogue.activation == POLYCONV_ACT_RELU;
  Result *to = y + p.result.at(at);
#pragma unroll
  for (int k = 0; k < channels; ++k) {
    if (k >= present) break;
    const float b = bias ? bias[at.c + k] : 0;
#pragma unroll
    for (int i = 0; i < outputs; ++i) {
      const float v = bias ? add(sum[i][k], b) : sum[i][k];
      if (at.h + i < p.result.size[3]) put(relu && v < 0 ? 0.0f : v, to + i * p.result.stride[3]);
    }
    to += p.result.stride[1];
  }
}

// Everything else, an output channel at a time: the sums lie in shared memory, where the window of a pooled result is
// together, and the block's threads take a result each. Not inlined: it would cost the main loop registers.
static __device__ __noinline__ void store_any(const Conv<int32_t> *conv, const Patch *patch, void *y, const float *sums,
                                              int32_t rows, Origin o, int32_t channel) {
  const Conv<int32_t> &p = *conv;
  const Patch &s = *patch;
  const int32_t results = s.result_rows * s.result_columns;
  for (int32_t i = threadIdx.x; i < results * s.images; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t image = i / results, row = i % results / s.result_columns, column = i % s.result_columns;
    const Place<int32_t> at{o.image + image, channel, 0, o.result_top + row, o.result_left + column};
    if (at.n >= p.result.size[0] || at.h >= p.result.size[3] || at.w >= p.result.size[4]) continue;
    const float *of_image = sums + image * rows * s.columns;
    pool_and_store<float>(p, y, at, p.output, [&](const Place<int32_t> &inner) {
      return of_image[(inner.h - o.top) * s.columns + inner.w - o.left];
    });
  }
}

template <bool f32, int n, int outputs, int channels>
__global__ void __launch_bounds__(kMostThreads, f32 ? 2 : 1)
    convolve(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Patch s, const void *x, const void *w,
             void *y) {
  extern __shared__ __align__(16) float buffers[];
  ptx::await_previous();
  const Origin o = origin_of<channels>(p, s);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t column = thread % s.columns, stripe = thread / s.columns % s.stripes;
  const int32_t image = thread / s.columns / s.stripes;
  const bool active = image < s.images, alone = s.buffers == 1;
  const int32_t taps = p.weights.size[3] * p.weights.size[4];
  const int32_t mine =
      s.chunk * taps * channels + image * s.plane + stripe * outputs * p.stride[1] * s.pitch + column * p.stride[2];

  float sum[outputs][channels] = {};
  // Two buffers: the next chunk is copied while one is summed. One alone is written and read by turns.
#pragma unroll 1
  for (int32_t first = alone ? 0 : -s.chunk, part = alone ? 0 : 1; first < s.group_in;
       first += s.chunk, part ^= s.buffers - 1) {
    const int32_t next = alone ? first : first + s.chunk;
    await_copies();
    __syncthreads(); // the chunk to be summed is there, and nobody reads the last one any more
    if (next < s.group_in) {
      float *buffer = buffers + (alone ? 0 : part ^ 1) * s.buffer;
      if constexpr (f32)
        stage_chunk<channels, float, float>(p, s, x, w, buffer, o, next);
      else
        stage_any<channels>(&p, &s, x, w, buffer, o, next);
    }
    if (alone) {
      await_copies();
      __syncthreads();
    }
    if (first < 0 || !active) continue;
    const float *weights = buffers + part * s.buffer;
    const int32_t count = min(s.chunk, s.group_in - first);
#pragma unroll 1
    for (int32_t c = 0; c < count; ++c)
      accumulate<n, outputs, channels>(p, weights + c * taps * channels, weights + mine + c * s.images * s.plane,
                                       s.pitch, sum);
  }

  const int32_t present = min(channels, s.group_out - o.channel), k = o.group * s.group_out + o.channel;
  if (s.plain) {
    const Place<int32_t> at{o.image + image, k, 0, o.top + stripe * outputs, o.left + column};
    if (!active || at.n >= p.result.size[0] || at.w >= p.result.size[4]) return;
    if (f32 || p.epilogue.result_type == POLYCONV_F32) return store_plain(p, static_cast<float *>(y), sum, at, present);
    if constexpr (!f32) {
      if (p.epilogue.result_type == POLYCONV_F16)
        store_plain(p, static_cast<__half *>(y), sum, at, present);
      else
        store_plain(p, static_cast<__nv_bfloat16 *>(y), sum, at, present);
    }
    return;
  }
  float *sums = buffers + (image * s.stripes + stripe) * outputs * s.columns + column;
#pragma unroll
  for (int j = 0; j < channels; ++j) {
    if (j >= present) break;
    __syncthreads(); // the last readers of shared memory are done
    if (active) {
#pragma unroll
      for (int i = 0; i < outputs; ++i) sums[i * s.columns] = sum[i][j];
    }
    __syncthreads();
    store_any(&p, &s, y, buffers, s.stripes * outputs, o, k + j);
  }
}

template <int n, int outputs, int channels>
void launch_patch(const Conv<int32_t> &p, const Patch &s, const void *x, const void *w, void *y, cudaStream_t stream) {
  const auto kernel =
      s.input_type == POLYCONV_F32 ? convolve<true, n, outputs, channels> : convolve<false, n, outputs, channels>;
  launch_waiting(kernel, static_cast<unsigned>(s.blocks), s.threads, static_cast<size_t>(s.shared_bytes), stream, p, s,
                 x, w, y);
}

template <int n>
PatchLaunch find_patch(int outputs, int channels) {
  switch (channels * 10 + outputs) {
    case 11: return launch_patch<n, 1, 1>;
    case 14: return launch_patch<n, 4, 1>;
    case 41: return launch_patch<n, 1, 4>;
    case 42: return launch_patch<n, 2, 4>;
    case 44: return launch_patch<n, 4, 4>;
    case 84: return launch_patch<n, 4, 8>;
    case 87: return launch_patch<n, 7, 8>;
    case 125: return launch_patch<n, 5, 12>;
    default: return nullptr;
  }
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(n) template shared::PatchLaunch shared::find_patch<n>(int, int);
