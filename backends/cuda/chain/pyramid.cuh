// pyramid.cuh - a block's way through the layers: stage, sum, finish, pool; between two layers stands a barrier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/async.cuh"
#include "common/epilogue.cuh"
#include "pyramid.hpp"

namespace polyconv::cuda::chain {

// Where a block is.
struct Here {
  float *shared;
  int32_t image, images; // the first, and how many there are
  int32_t tile[2];

  __device__ int32_t first(const Map &m, int axis) const { return m.begin[axis] + tile[axis] * m.step[axis]; }
  __device__ float *of(const Pyramid &p, const Map &m, int32_t i) const {
    return shared + p.arena + i * p.image_floats + m.offset;
  }
};

// The rows and columns of a map that lie inside the tensor, counted in the tensor.
struct Inside {
  int32_t top, left, rows, columns;
};
__device__ inline Inside inside(const Here &here, const Map &m) {
  const int32_t top = here.first(m, 0), left = here.first(m, 1), first_row = max(top, 0), first_column = max(left, 0);
  return {first_row, first_column, max(min(top + m.extent[0], m.size[0]) - first_row, 0),
          max(min(left + m.extent[1], m.size[1]) - first_column, 0)};
}

// A value as the tensor between two layers, or the result, would hold it.
__device__ inline float rounded(const Stage &s, int32_t type, float v) {
  switch (type) {
    case POLYCONV_F32: return v;
    case POLYCONV_F16: return __half2float(__float2half_rn(v));
    case POLYCONV_BF16: return __bfloat162float(__float2bfloat16_rn(v));
    default: break;
  }
  v = add(rint(divide(v, s.out_scale)), static_cast<float>(s.out_zero_point));
  return static_cast<float>(type == POLYCONV_U8 ? round_to_integer(v, 0, 255) : round_to_integer(v, 0, 65535));
}

// A finished and pooled value of layer i to where the next layer reads it, or out.
__device__ inline void put(const Pyramid &p, const Pointers &to, const Here &here, int32_t i, float v, int32_t n,
                           int32_t k, int32_t h, int32_t w) {
  if (i + 1 == p.layers) {
    const int32_t *stride = p.result_stride;
    const int64_t at = p.result_offset + (here.image + n) * stride[0] + k * stride[1] + h * stride[2] + w * stride[3];
    store(to.result, p.result_type, at, rounded(p.stage[i], p.result_type, v));
    return;
  }
  const Map &m = p.map[i + 1];
  here.of(p, m, n)[k * m.plane + (h - here.first(m, 0)) * m.pitch + w - here.first(m, 1)] =
      rounded(p.stage[i], m.type, v);
}

// Scale, bias, residual, activation.
__device__ inline float finish(const Pyramid &p, const Pointers &from, const Here &here, int32_t i, float v, int32_t n,
                               int32_t k, int32_t h, int32_t w) {
  const Stage &s = p.stage[i];
  if (from.scale[i]) v = multiply(v, from.scale[i][k]);
  if (from.bias[i]) v = add(v, from.bias[i][k]);
  if (s.residual_map >= 0) {
    const Map &m = p.map[s.residual_map];
    const float r = here.of(p, m, n)[k * m.plane + (h - here.first(m, 0)) * m.pitch + w - here.first(m, 1)];
    v = add(v, multiply(s.residual_scale, r));
  } else if (from.residual[i]) {
    const int32_t *stride = s.residual_stride;
    const int32_t at = s.residual_offset + (here.image + n) * stride[0] + k * stride[1] + h * stride[2] + w * stride[3];
    v = add(v, multiply(s.residual_scale, load<float>(from.residual[i], s.residual_type, at)));
  }
  return activate(v, s.activation, s.alpha);
}

// Calls visit(image, channel, row, column) for each element of a map's rows and columns, counted in the map.
template <class Visit>
__device__ inline void each(const Here &here, const Map &m, const Visit &visit) {
  const int32_t area = m.extent[0] * m.extent[1], count = here.images * m.channels * area;
  for (auto e = static_cast<int32_t>(threadIdx.x); e < count; e += static_cast<int32_t>(blockDim.x)) {
    const int32_t plane = e / area, place = e - plane * area, n = plane / m.channels, row = place / m.extent[1];
    visit(n, plane - n * m.channels, row, place - row * m.extent[1]);
  }
}

// The chain's input, and what padding its first layer finds around it.
__device__ inline void stage_input(const Pyramid &p, const Pointers &from, const Here &here, int32_t pad_mode) {
  const Map &m = p.map[0];
  const int32_t top = here.first(m, 0), left = here.first(m, 1);
  each(here, m, [&](int32_t n, int32_t c, int32_t row, int32_t column) {
    const int32_t h = sdk::padded_index_in(top + row, m.size[0], pad_mode);
    const int32_t w = sdk::padded_index_in(left + column, m.size[1], pad_mode);
    const int32_t *stride = p.input_stride;
    const int32_t at = p.input_offset + (here.image + n) * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
    here.of(p, m, n)[c * m.plane + row * m.pitch + column] =
        h < 0 || w < 0 ? m.padding : load<float>(from.input, m.type, at);
  });
}

// Where a tile sticks out of the tensor: what the next layer finds there.
__device__ inline void pad_map(const Pyramid &p, const Here &here, const Map &m) {
  const Inside in = inside(here, m);
  if (in.rows == m.extent[0] && in.columns == m.extent[1]) return;
  const int32_t top = in.top - here.first(m, 0), left = in.left - here.first(m, 1);
  each(here, m, [&](int32_t n, int32_t c, int32_t row, int32_t column) {
    if (row < top || row >= top + in.rows || column < left || column >= left + in.columns)
      here.of(p, m, n)[c * m.plane + row * m.pitch + column] = m.padding;
  });
}

// A thread's sums: kChannels output channels of kColumns neighbours in a row. x is the first tap of the first.
__device__ inline void sum_taps(const Stage &s, const Map &m, const float *x, const float *weights,
                                float (&sum)[kColumns][kChannels]) {
  for (int32_t c = 0; c < s.group_in; ++c, x += m.plane)
    for (int32_t r = 0; r < s.taps[0]; ++r)
#pragma unroll 1
      for (int32_t t = 0; t < s.taps[1]; ++t, weights += kChannels) {
        const float4 w = *reinterpret_cast<const float4 *>(weights);
        const float *from = x + r * s.dilation[0] * m.pitch + t * s.dilation[1];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const float v = from[j * s.stride[1]];
          sum[j][0] = fmaf(v, w.x, sum[j][0]), sum[j][1] = fmaf(v, w.y, sum[j][1]);
          sum[j][2] = fmaf(v, w.z, sum[j][2]), sum[j][3] = fmaf(v, w.w, sum[j][3]);
        }
      }
}

// Layer i: its sums, finished, into the tile before pooling or on to the next layer.
__device__ inline void convolve(const Pyramid &p, const Pointers &at, const Here &here, int32_t i) {
  const Stage &s = p.stage[i];
  const Map &m = p.map[i];
  const Inside out = inside(here, s.output);
  const int32_t across = (out.columns + kColumns - 1) / kColumns, area = out.rows * across;
  const int32_t blocks = (s.group_out + kChannels - 1) / kChannels; // of a group
  const int32_t count = here.images * s.channel_blocks * area;
  for (auto e = static_cast<int32_t>(threadIdx.x); e < count; e += static_cast<int32_t>(blockDim.x)) {
    const int32_t row = e % area / across, column = e % area % across * kColumns;
    const int32_t n = e / area % here.images, block = e / area / here.images, group = block / blocks;
    const int32_t h = out.top + row, w = out.left + column;
    const int32_t x_row = h * s.stride[0] - s.pad[0] - here.first(m, 0);
    const int32_t x_column = w * s.stride[1] - s.pad[1] - here.first(m, 1);
    float sum[kColumns][kChannels] = {};
    sum_taps(s, m, here.of(p, m, n) + group * s.group_in * m.plane + x_row * m.pitch + x_column,
             here.shared + s.weights + block * s.group_in * s.taps[0] * s.taps[1] * kChannels, sum);
    const int32_t first = block % blocks * kChannels;
    for (int k = 0; k < kChannels && first + k < s.group_out; ++k)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (column + j >= out.columns) break;
        const int32_t channel = group * s.group_out + first + k;
        float v = 0;
#pragma unroll
        for (int kk = 0; kk < kChannels; ++kk)
          if (kk == k) v = sum[j][kk];
        v = finish(p, at, here, i, v, n, channel, h, w + j);
        if (s.pool_kind == POLYCONV_POOL_NONE) {
          put(p, at, here, i, v, n, channel, h, w + j);
        } else {
          const Map &before = s.output;
          here.of(
              p, before,
              n)[channel * before.plane + (h - here.first(before, 0)) * before.pitch + w + j - here.first(before, 1)] =
              v;
        }
      }
  }
}

// Pools layer i's tile.
__device__ inline void pool(const Pyramid &p, const Pointers &to, const Here &here, int32_t i) {
  const Stage &s = p.stage[i];
  const Map &before = s.output;
  const bool last = i + 1 == p.layers, average = s.pool_kind == POLYCONV_POOL_AVERAGE;
  const Inside out = last ? Inside{here.tile[0] * p.result_tile[0], here.tile[1] * p.result_tile[1],
                                   min(p.result_tile[0], p.result_size[0] - here.tile[0] * p.result_tile[0]),
                                   min(p.result_tile[1], p.result_size[1] - here.tile[1] * p.result_tile[1])}
                          : inside(here, p.map[i + 1]);
  const int32_t area = out.rows * out.columns, count = here.images * before.channels * area;
  for (auto e = static_cast<int32_t>(threadIdx.x); e < count; e += static_cast<int32_t>(blockDim.x)) {
    const int32_t plane = e / area, n = plane / before.channels, c = plane - n * before.channels;
    const int32_t h = out.top + e % area / out.columns, w = out.left + e % area % out.columns;
    const int32_t top = h * s.pool_stride[0] - s.pool_pad[0], left = w * s.pool_stride[1] - s.pool_pad[1];
    const int32_t end_h = min(top + s.pool_window[0], before.size[0]);
    const int32_t end_w = min(left + s.pool_window[1], before.size[1]);
    const float *from =
        here.of(p, before, n) + c * before.plane - here.first(before, 0) * before.pitch - here.first(before, 1);
    float best = 0;
    int32_t seen = 0;
    for (int32_t y = max(top, 0); y < end_h; ++y)
      for (int32_t x = max(left, 0); x < end_w; ++x, ++seen) {
        const float v = from[y * before.pitch + x];
        if (average)
          best = add(best, v);
        else if (seen == 0 || pool_better(v, best))
          best = v;
      }
    if (average)
      best = divide(best, static_cast<float>(s.count_include_pad ? s.pool_window[0] * s.pool_window[1] : seen));
    put(p, to, here, i, best, n, c, h, w);
  }
}

} // namespace polyconv::cuda::chain
