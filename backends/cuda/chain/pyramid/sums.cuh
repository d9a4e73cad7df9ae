// sums.cuh - a thread's sums: the register tile of cuda-chain/pyramid, a few output channels of neighbouring
// columns. Inputs and weights come from shared memory, the weights alike for all threads of a warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pyramid/pyramid.hpp"

namespace polyconv::cuda::chain {

// The weights of one tap.
template <int channels>
__device__ __forceinline__ void read_weights(const float *from, float (&w)[channels]) {
  if constexpr (channels == 1) {
    w[0] = *from;
  } else {
#pragma unroll
    for (int k = 0; k < channels; k += 4) {
      if (k + 4 <= channels) {
        const float4 four = *reinterpret_cast<const float4 *>(from + k);
        w[k] = four.x, w[k + 1] = four.y, w[k + 2] = four.z, w[k + 3] = four.w;
      } else {
        const float2 two = *reinterpret_cast<const float2 *>(from + k);
        w[k] = two.x, w[k + 1] = two.y;
      }
    }
  }
}

// A row of inputs. At a stride of 2 they are pairs, so that a warp that reads every other column meets all banks.
template <int count, int stride>
__device__ __forceinline__ void read_row(const float *from, float (&x)[count]) {
  if constexpr (stride == 2) {
    static_assert(count % 2 == 0);
#pragma unroll
    for (int i = 0; i < count; i += 2) {
      const float2 two = *reinterpret_cast<const float2 *>(from + i);
      x[i] = two.x, x[i + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = from[i];
  }
}

// x is the first tap of the first column, in the group's first channel. A row of taps is unrolled, no more: groups at
// different layers share the instruction cache.
template <int size, int stride, int channels, int columns>
__device__ __forceinline__ void sum_unrolled(const Stage &s, const Map &m, const float *x, const float *weights,
                                             float (&sum)[columns][channels]) {
  constexpr int row = Shape{size, stride, channels}.row();
  constexpr int wide = (columns - 1) * stride + size, read = stride == 2 ? (wide + 1) / 2 * 2 : wide;
  const int32_t pitch = m.pitch, next = m.plane - size * pitch;
#pragma unroll 1
  for (int32_t c = s.group_in; c > 0; --c, x += next) {
#pragma unroll 1
    for (int r = 0; r < size; ++r, x += pitch) {
      float in[read];
      read_row<read, stride>(x, in);
#pragma unroll
      for (int t = 0; t < size; ++t, weights += row) {
        float w[channels];
        read_weights(weights, w);
#pragma unroll
        for (int j = 0; j < columns; ++j)
#pragma unroll
          for (int k = 0; k < channels; ++k) sum[j][k] = fmaf(in[j * stride + t], w[k], sum[j][k]);
      }
    }
  }
}

template <int channels, int columns>
__device__ __forceinline__ void sum_taps(const Stage &s, const Map &m, const float *x, const float *weights,
                                         float (&sum)[columns][channels]) {
  constexpr int row = Shape{0, 0, channels}.row();
  for (int32_t c = 0; c < s.group_in; ++c, x += m.plane)
    for (int32_t r = 0; r < s.taps[0]; ++r)
#pragma unroll 1
      for (int32_t t = 0; t < s.taps[1]; ++t, weights += row) {
        float w[channels];
        read_weights(weights, w);
        const float *from = x + r * s.dilation[0] * m.pitch + t * s.dilation[1];
#pragma unroll
        for (int j = 0; j < columns; ++j) {
          const float v = from[j * s.stride[1]];
#pragma unroll
          for (int k = 0; k < channels; ++k) sum[j][k] = fmaf(v, w[k], sum[j][k]);
        }
      }
}

} // namespace polyconv::cuda::chain
