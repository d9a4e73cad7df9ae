// leave.cuh - how sums leave where channels are planes (planes.cuh): of a product's sums, eight
// threads hold eight neighbouring pixels of a channel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planes/planes.hpp"
#include "wgmma/leave.cuh"

namespace polyconv::cuda::wgmma {

// Where a warpgroup's sums of 32 channels and 64 pixels are turned on their way out: eight pixels of a channel, as the
// products leave them, are a quarter of what a store can write at once. Rows of four channels lie in different banks.
inline constexpr int kTurnRow = (64 + 4) * 4, kTurnBytes = 32 * kTurnRow;

// Goes over a thread's sums of a pixel, two neighbours of every eight channels: body(place among the sums, pointer to
// the channel). `plane`: elements from one channel to the next; `channels`: from the thread's first one on.
template <class Tile, class T, class Body>
__device__ inline void each_channel(T *first, int64_t plane, int32_t channels, const Body &body) {
  T *second = first + plane;
#pragma unroll
  for (int j = 0; j < Tile::channels / 8; ++j, first += 8 * plane, second += 8 * plane) {
    if (8 * j < channels) body(4 * j, first);
    if (8 * j + 1 < channels) body(4 * j + 1, second);
  }
}

// Adds the biases of a thread's channels.
template <class Tile>
__device__ inline void add_bias(const PlanesProduct &p, float (&sums)[Tile::rows][Tile::channels / 2],
                                int32_t channel) {
  channel += static_cast<int32_t>(threadIdx.x % 4) * 2;
  each_channel<Tile>(static_cast<const float *>(p.conv.epilogue.bias) + channel, 1, p.channels - channel,
                     [&](int i, const float *bias) {
#pragma unroll
                       for (auto &row : sums) row[i] += *bias, row[i + 2] += *bias;
                     });
}

// Residual and a relu, clipped or not: straight into the result's planes.
template <class Tile>
__device__ inline void leave_in_planes(const Product &p, float (&sums)[Tile::rows][Tile::channels / 2], int32_t pixel,
                                       int32_t channel) {
  const Epilogue &e = p.conv.epilogue;
  const float least = e.activation != POLYCONV_ACT_NONE ? 0.0f : -INFINITY;
  const float most = e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.alpha : INFINITY;
  channel += static_cast<int32_t>(threadIdx.x % 4) * 2, pixel += static_cast<int32_t>(threadIdx.x % 32 / 4);
  const int32_t channels = p.channels - channel;
#pragma unroll
  for (int index = 0; index < 2 * Tile::rows; ++index) {
    const int32_t mine = pixel + 8 * index + index / 2 * 48;
    if (mine >= p.pixels) continue;
    float *const values = sums[index / 2] + index % 2 * 2;
    Place<int64_t> at = place_of_pixel(p, mine);
    at.c = channel;
    if (e.residual != nullptr) {
      each_channel<Tile>(static_cast<const float *>(e.residual) + p.conv.residual.at(at), p.conv.residual.stride[1],
                         channels, [&](int i, const float *added) { values[i] += e.residual_scale * *added; });
    }
    each_channel<Tile>(static_cast<float *>(p.result) + p.conv.result.at(at), p.conv.result.stride[1], channels,
                       [&](int i, float *to) { *to = ptx::greater(ptx::lesser(values[i], most), least); });
  }
}

// Likewise by way of shared memory, `turn`: 64 pixels and 32 channels at a time, in which a thread then has pixels t
// and 32 on of every fourth channel.
template <class Tile>
__device__ inline void leave_turned(const PlanesProduct &p, const float (&sums)[Tile::channels / 2], int32_t pixel,
                                    int32_t channel, uint32_t turn) {
  const Epilogue &e = p.conv.epilogue;
  const float least = e.activation != POLYCONV_ACT_NONE ? 0.0f : -INFINITY;
  const float most = e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.alpha : INFINITY;
  const auto warp = static_cast<int32_t>(threadIdx.x % 128 / 32), barrier = static_cast<int32_t>(threadIdx.x / 128) + 2;
  const uint32_t mine = turn + threadIdx.x % 4 * 2 * kTurnRow + (warp * 16 + threadIdx.x % 32 / 4) * 4;
  const uint32_t from = turn + warp * kTurnRow + threadIdx.x % 32 * 4;
  const int64_t step = 4 * p.conv.result.stride[1];
  int32_t left[2]; // channels from this thread's next one on; none beyond the last pixel
  float *to[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t at = pixel + half * 32 + static_cast<int32_t>(threadIdx.x % 32);
    left[half] = at < p.pixels ? p.channels - channel - warp : 0;
    Place<int64_t> place = place_of_pixel(p, min(at, p.pixels - 1));
    place.c = channel + warp;
    to[half] = static_cast<float *>(p.result) + p.conv.result.at(place);
  }
#pragma unroll
  for (int chunk = 0; chunk < Tile::channels / 32; ++chunk) {
    ptx::meet(barrier, 128); // what was there has been read
#pragma unroll
    for (int i = 0; i < 16; ++i)
      ptx::store_shared(mine + (i / 4 * 8 + i % 2) * kTurnRow + i / 2 % 2 * 32, sums[chunk * 16 + i]);
    ptx::meet(barrier, 128);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = __uint_as_float(ptx::load_word(from + i * 4 * kTurnRow + half * 128));
      if (e.residual != nullptr) {
        const float *residual = static_cast<const float *>(e.residual) + (to[half] - static_cast<float *>(p.result));
#pragma unroll
        for (int i = 0; i < 8; ++i, residual += step)
          if (chunk * 32 + i * 4 < left[half]) v[i] += e.residual_scale * *residual;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i, to[half] += step)
        if (chunk * 32 + i * 4 < left[half]) *to[half] = ptx::greater(ptx::lesser(v[i], most), least);
    }
  }
}

template <class Tile>
__device__ inline void leave_planes(const PlanesProduct &p, float (&sums)[Tile::rows][Tile::channels / 2],
                                    const Turn<Tile> &turn, int member, uint32_t turns) {
  const int32_t pixel = turn.pixel + member * Tile::rows * 64;
  const int32_t first = pixel + static_cast<int32_t>(threadIdx.x % 128 / 32 * 16); // of this warp
  if (p.plain) {
    if (p.conv.epilogue.bias != nullptr) add_bias<Tile>(p, sums, turn.channel);
    if constexpr (Tile::turns) {
#pragma unroll
      for (int row = 0; row < Tile::rows; ++row)
        leave_turned<Tile>(p, sums[row], pixel + row * 64, turn.channel, turns + threadIdx.x / 128 * kTurnBytes);
    } else {
      leave_in_planes<Tile>(p, sums, first, turn.channel);
    }
    return;
  }
  constexpr int kChunks = Tile::channels / 32;
#pragma unroll 1
  for (int index = 0; index < Tile::rows * kChunks; ++index) {
    Values v;
    take_chunk<Tile>(sums, index, v);
    finish_each(p, v, first + index / kChunks * 64, turn.channel + 32 * (index % kChunks));
  }
}

} // namespace polyconv::cuda::wgmma
