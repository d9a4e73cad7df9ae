// leave.cuh - how the sums of a tile leave: through shared memory, so that neighbouring threads store neighbouring
// elements in either layout, with the epilogue on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "common/implicit.cuh"
#include "mma/pipeline.cuh"

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

// Scale, bias, relu, clipped or not: all that the fast ends do to a sum. A NaN stays one.
struct PlainEnd {
  float least, most;

  __device__ explicit PlainEnd(const Epilogue &e)
      : least(e.activation == POLYCONV_ACT_NONE ? -INFINITY : 0.0f),
        most(e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.alpha : INFINITY) {}
  // Channel c of pixel x of the tile.
  template <class Tile>
  __device__ float value(const Leaving<Tile> &l, int x, int c) const {
    float v = add(multiply(l.sums[x * Leaving<Tile>::row_of_channels + c], l.scale[c]), l.bias[c]);
    if (v < least) v = least;
    if (v > most) v = most;
    return v;
  }
};

// The first of the tile's channels in pixel 0 of the result, where channels are neighbours.
template <class T>
__device__ inline T *channels_at(const MmaProduct &p, const Corner &corner) {
  return static_cast<T *>(p.result) + static_cast<int64_t>(corner.group) * p.group_out + corner.channel;
}

// 16 bytes of channels at a time.
template <class T, class Tile>
__device__ inline void store_vectors(const MmaProduct &p, const Leaving<Tile> &l, const Corner &corner) {
  constexpr int vector = 16 / sizeof(T), lanes = Tile::channels / vector, step = Tile::threads / lanes;
  const int c = static_cast<int>(threadIdx.x) % lanes * vector;
  const int pixels = static_cast<int>(min(p.pixels - corner.pixel, int64_t{Tile::pixels}));
  if (corner.channel + c >= p.group_out) return;
  T *const result = channels_at<T>(p, corner) + c;
  const PlainEnd end(p.conv.epilogue);
#pragma unroll 2
  for (int x = static_cast<int>(threadIdx.x) / lanes; x < pixels; x += step) {
    float v[vector];
#pragma unroll
    for (int e = 0; e < vector; ++e) v[e] = end.value(l, x, c + e);
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

// Deals the cells of a tile's rows to its threads in the order of memory, whatever a row's length: divides once.
template <class Tile>
struct Deal {
  int x, i; // which row, which of its cells
  const int row, step_x, step_i;

  __device__ explicit Deal(int cells)
      : x(static_cast<int>(threadIdx.x) / cells),
        i(static_cast<int>(threadIdx.x) % cells),
        row(cells),
        step_x(Tile::threads / cells),
        step_i(Tile::threads % cells) {}
  __device__ void next() {
    x += step_x, i += step_i;
    if (i >= row) i -= row, ++x;
  }
};

// Channels that come in no vectors: of 4 bytes each,
template <class Tile>
__device__ inline void store_singles(const MmaProduct &p, const Leaving<Tile> &l, const Corner &corner) {
  const int pixels = static_cast<int>(min(p.pixels - corner.pixel, int64_t{Tile::pixels}));
  auto *const result = channels_at<float>(p, corner);
  const PlainEnd end(p.conv.epilogue);
#pragma unroll 1
  for (Deal<Tile> at(min(p.group_out - corner.channel, Tile::channels)); at.x < pixels; at.next())
    result[l.offset[at.x] + at.i] = end.value(l, at.x, at.i);
}

// or of 2 bytes, by aligned words: a pixel's first channel may be the upper half of a word, its last one the lower.
template <class Tile>
__device__ inline void store_pairs(const MmaProduct &p, const Leaving<Tile> &l, const Corner &corner, bool half) {
  const int pixels = static_cast<int>(min(p.pixels - corner.pixel, int64_t{Tile::pixels}));
  const int channels = min(p.group_out - corner.channel, Tile::channels);
  auto *const result = channels_at<uint16_t>(p, corner);
  const PlainEnd end(p.conv.epilogue);
#pragma unroll 1
  for (Deal<Tile> at(channels / 2 + 1); at.x < pixels; at.next()) { // words that a row may touch
    uint16_t *const row = result + l.offset[at.x];
    const int c = 2 * at.i - static_cast<int>(reinterpret_cast<uintptr_t>(row) >> 1 & 1); // of the lower half
    const bool lower = c >= 0 && c < channels, upper = c + 1 < channels;
    const float first = lower ? end.value(l, at.x, c) : 0.0f, second = upper ? end.value(l, at.x, c + 1) : 0.0f;
    const uint32_t bits = half ? pair_of(first, second, __half()) : pair_of(first, second, __nv_bfloat16());
    if (lower && upper)
      *reinterpret_cast<uint32_t *>(row + c) = bits;
    else if (lower)
      row[c] = static_cast<uint16_t>(bits);
    else if (upper)
      row[c + 1] = static_cast<uint16_t>(bits >> 16);
  }
}

// Every other end, one element at a time: neighbouring threads are neighbours in memory.
template <class Tile>
__device__ inline void store_elements(const MmaProduct &p, const Leaving<Tile> &l, const Corner &corner) {
  using L = Leaving<Tile>;
  const bool partial = p.splits > 1, inner = inner_of(p);
  const int pixels = static_cast<int>(min(p.pixels - corner.pixel, int64_t{Tile::pixels}));
  const int channels = min(p.group_out - corner.channel, Tile::channels);
  const int64_t first = static_cast<int64_t>(corner.group) * p.group_out + corner.channel;
  const int rows = inner ? pixels : channels;
#pragma unroll 1
  for (Deal<Tile> at(inner ? channels : pixels); at.x < rows; at.next()) {
    const int x = inner ? at.x : at.i, c = inner ? at.i : at.x;
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
  const bool single = e.result_type == POLYCONV_F32, half = e.result_type == POLYCONV_F16;
  if (!inner_of(p) || !plain)
    store_elements<Tile>(p, l, corner);
  else if (!p.whole_vectors)
    single ? store_singles<Tile>(p, l, corner) : store_pairs<Tile>(p, l, corner, half);
  else if (single)
    store_vectors<float, Tile>(p, l, corner);
  else if (half)
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
    const Pixel o = pixel_of(p, min(corner.pixel + i, p.pixels - 1));
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
