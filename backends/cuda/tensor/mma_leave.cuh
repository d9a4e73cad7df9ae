// mma_leave.cuh - how the sums of a tile leave: through shared memory, so that neighbouring threads store neighbouring
// elements in either layout, with the epilogue on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "common/implicit.cuh"
#include "mma_pipeline.cuh"

namespace polyconv::cuda::tensor {

// Shared memory when the sums leave. Rows are longer than what they hold by as much as keeps 8 rows apart in the banks.
template <class Tile>
struct Leaving {
  static constexpr int row_of_channels = Tile::channels + 8, row_of_pixels = Tile::pixels + 4;
  static constexpr int last = row_of_channels * Tile::pixels, first = row_of_pixels * Tile::channels;
  static constexpr int staged = last > first ? last : first;

  float sums[staged], scale[Tile::channels], bias[Tile::channels];
  int64_t offset[Tile::pixels]; // of channel 0 in the result, or of a partial sum
  Pixel pixel[Tile::pixels];
};

template <class Tile>
__device__ inline void stage_sums(float *staged, const MmaSums<Tile> &sums, bool inner) {
  using L = Leaving<Tile>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < Tile::warp_pixels / 16; ++i)
#pragma unroll
    for (int j = 0; j < Tile::warp_channels / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int x = Frame<Tile>::pixel() + i * 16 + half * 8 + lane / 4,
                  y = Frame<Tile>::channel() + j * 8 + lane % 4 * 2;
        const float first = sums[i][j][2 * half], second = sums[i][j][2 * half + 1];
        if (inner) {
          *reinterpret_cast<float2 *>(staged + x * L::row_of_channels + y) = {first, second};
        } else {
          staged[y * L::row_of_pixels + x] = first;
          staged[(y + 1) * L::row_of_pixels + x] = second;
        }
      }
}

// Partial sums lie channels outside, whatever the result does.
__device__ inline bool inner_of(const ImplicitGemm &p) {
  return p.conv.channels_inner && p.splits == 1;
}

// The fast end: scale, bias, relu, clipped or not; 16 bytes of channels at a time. A NaN stays one.
template <class T, class Tile>
__device__ inline void store_vectors(const MmaProduct &p, const Leaving<Tile> &l, const Corner &corner) {
  using L = Leaving<Tile>;
  constexpr int vector = 16 / sizeof(T), lanes = Tile::channels / vector, step = Tile::threads / lanes;
  const int c = static_cast<int>(threadIdx.x) % lanes * vector;
  const int pixels = static_cast<int>(min(p.pixels - corner.pixel, int64_t{Tile::pixels}));
  if (corner.channel + c >= p.group_out) return;
  T *const result = static_cast<T *>(p.result) + static_cast<int64_t>(corner.group) * p.group_out + corner.channel + c;
  const Epilogue &end = p.conv.epilogue;
  const float least = end.activation == POLYCONV_ACT_NONE ? -INFINITY : 0.0f;
  const float most = end.activation == POLYCONV_ACT_CLIPPED_RELU ? end.alpha : INFINITY;
#pragma unroll 2
  for (int x = static_cast<int>(threadIdx.x) / lanes; x < pixels; x += step) {
    float v[vector];
#pragma unroll
    for (int e = 0; e < vector; ++e) {
      v[e] = add(multiply(l.sums[x * L::row_of_channels + c + e], l.scale[c + e]), l.bias[c + e]);
      if (v[e] < least) v[e] = least;
      if (v[e] > most) v[e] = most;
    }
    int4 bits;
    if constexpr (sizeof(T) == 4) {
      bits = {__float_as_int(v[0]), __float_as_int(v[1]), __float_as_int(v[2]), __float_as_int(v[3])};
    } else {
      auto *pairs = reinterpret_cast<uint32_t *>(&bits);
#pragma unroll
      for (int e = 0; e < 4; ++e) pairs[e] = pair_of(v[2 * e], v[2 * e + 1], T());
    }
    *reinterpret_cast<int4 *>(result + l.offset[x]) = bits;
  }
}

// Every other end, one element at a time: neighbouring threads are neighbours in memory.
template <class Tile>
__device__ inline void store_elements(const MmaProduct &p, const Leaving<Tile> &l, const Corner &corner) {
  using L = Leaving<Tile>;
  const bool partial = p.splits > 1, inner = inner_of(p);
  const int pixels = static_cast<int>(min(p.pixels - corner.pixel, int64_t{Tile::pixels}));
  const int channels = p.group_out - corner.channel;
  const int64_t first = static_cast<int64_t>(corner.group) * p.group_out + corner.channel;
#pragma unroll 1
  for (int i = threadIdx.x; i < Tile::pixels * Tile::channels; i += Tile::threads) {
    const int x = inner ? i / Tile::channels : i % Tile::pixels, c = inner ? i % Tile::channels : i / Tile::pixels;
    if (x >= pixels || c >= channels) continue;
    const float sum = inner ? l.sums[x * L::row_of_channels + c] : l.sums[c * L::row_of_pixels + x];
    if (partial) {
      static_cast<float *>(p.partials)[l.offset[x] + (first + c) * p.partials_row] = sum;
      continue;
    }
    const float scaled = add(multiply(sum, l.scale[c]), l.bias[c]);
    const Pixel o = l.pixel[x];
    store(p.result, p.conv.epilogue.result_type, l.offset[x] + (first + c) * p.conv.result.stride[1],
          finish_scaled(p.conv, scaled, Place<int64_t>{o.n, first + c, o.d, o.h, o.w}));
  }
}

template <class Tile>
__device__ inline void store_sums(const MmaProduct &p, const Leaving<Tile> &l, const Corner &corner) {
  const Epilogue &e = p.conv.epilogue;
  const bool plain = !e.residual && e.save == POLYCONV_SAVE_NONE && e.activation <= POLYCONV_ACT_CLIPPED_RELU;
  if (p.splits > 1 || !plain || !p.whole_vectors)
    store_elements<Tile>(p, l, corner);
  else if (e.result_type == POLYCONV_F32)
    store_vectors<float, Tile>(p, l, corner);
  else if (e.result_type == POLYCONV_F16)
    store_vectors<__half, Tile>(p, l, corner);
  else
    store_vectors<__nv_bfloat16, Tile>(p, l, corner);
}

// The end of a tile: every thread has its sums, and nobody uses shared memory any more.
template <class Tile>
__device__ inline void leave(const MmaProduct &p, const MmaSums<Tile> &sums, unsigned char *shared,
                             const Corner &corner) {
  auto &l = *reinterpret_cast<Leaving<Tile> *>(shared);
  const Epilogue &e = p.conv.epilogue;
  for (int i = threadIdx.x; i < Tile::pixels; i += Tile::threads) {
    const Pixel o = pixel_at(p, min(corner.pixel + i, p.pixels - 1));
    l.pixel[i] = o;
    l.offset[i] = p.splits > 1 ? blockIdx.y * p.partials_row * p.groups * p.group_out + corner.pixel + i
                               : p.conv.result.at(o.n, 0, o.d, o.h, o.w);
  }
  for (int i = threadIdx.x; i < Tile::channels; i += Tile::threads) {
    const int64_t c = static_cast<int64_t>(corner.group) * p.group_out + min(corner.channel + i, p.group_out - 1);
    l.scale[i] = e.scale ? load<float>(e.scale, e.scale_type, c) : 1.0f;
    l.bias[i] = e.bias ? load<float>(e.bias, e.bias_type, c) : -0.0f; // changes no sum, zeros included
  }
  if (inner_of(p))
    stage_sums<Tile>(l.sums, sums, true);
  else
    stage_sums<Tile>(l.sums, sums, false);
  __syncthreads();
  store_sums<Tile>(p, l, corner);
}

} // namespace polyconv::cuda::tensor
