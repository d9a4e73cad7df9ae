// stores.cuh - how the gradient of weights gets from registers into memory: as weights, whose channels are neighbours
// there, or as a piece of the sums of a tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/pairs.cuh"

namespace polyconv::cuda::wgmma {

// How the sums of a tile lie, in the workspace or in shared memory: in squares of eight rows by eight columns, row
// after row, and squares along a row of the tile. What a warp stores at once, as the product left it, are then 256
// bytes in a row; and eight neighbours of a row are whole sectors for who reads them.
struct Squares {
  static constexpr int kSide = 8, kSums = kSide * kSide, kQuads = kSums / 4;

  int32_t columns; // squares side by side

  // Where a sum lies, and which sum quad `quad` begins with.
  __device__ constexpr int32_t at(int32_t row, int32_t column) const {
    return (row / kSide * columns + column / kSide) * kSums + row % kSide * kSide + column % kSide;
  }
  __device__ constexpr int32_t row_of(int32_t quad) const {
    return quad / kQuads / columns * kSide + quad % kQuads / 2;
  }
  __device__ constexpr int32_t column_of(int32_t quad) const { return quad / kQuads % columns * kSide + quad % 2 * 4; }
};

// Two neighbouring channels of a weight, in one word where `pairs` lie so; the second may not exist.
template <class Out>
__device__ inline void store_pair(Out *to, float first, float second, bool pairs, bool both) {
  if (pairs && both) {
    if constexpr (sizeof(Out) == 4)
      *reinterpret_cast<float2 *>(to) = make_float2(first, second);
    else
      *reinterpret_cast<uint32_t *>(to) = pair_of(first, second, Out());
    return;
  }
  to[0] = static_cast<Out>(first);
  if (both) to[1] = static_cast<Out>(second);
}

// Four, which are a vector.
template <class Out>
__device__ inline void store_four(Out *to, const float4 &v) {
  if constexpr (sizeof(Out) == 4)
    *reinterpret_cast<float4 *>(to) = v;
  else
    *reinterpret_cast<uint2 *>(to) = make_uint2(pair_of(v.x, v.y, Out()), pair_of(v.z, v.w, Out()));
}

// Where a tap's weights begin in a row.
__device__ inline int64_t offset_of(const View<int64_t> &weights, int32_t tap) {
  const auto across = static_cast<int32_t>(weights.size[4]), down = static_cast<int32_t>(weights.size[3]);
  const int32_t line = tap / across, plane = line / down;
  return weights.at(0, 0, plane, line - plane * down, tap - line * across);
}

// 16 bytes of a row whose channels and taps lie side by side, a channel's taps first: from element `from` of the row
// on. `sum` gives the value of a tap and a channel.
template <class Out, class Sum>
__device__ inline void store_along_row(Out *row, int32_t from, int32_t taps, const Sum &sum) {
  int32_t channel = from / taps, tap = from - channel * taps;
  const auto next = [&]() -> float {
    const float value = sum(tap, channel);
    if (++tap == taps) tap = 0, ++channel;
    return value;
  };
  uint32_t words[4];
#pragma unroll
  for (uint32_t &word : words) {
    const float value = next();
    if constexpr (sizeof(Out) == 4)
      word = __float_as_uint(value);
    else
      word = pair_of(value, next(), Out());
  }
  *reinterpret_cast<uint4 *>(row + from) = make_uint4(words[0], words[1], words[2], words[3]);
}

// Four words of each of four neighbouring lanes change places: word j of lane i becomes word i of lane j.
__device__ inline void turn_words(uint32_t (&w)[4]) {
  const bool odd = threadIdx.x % 2 != 0, high = threadIdx.x % 4 >= 2;
  const uint32_t a = __shfl_xor_sync(~0u, odd ? w[0] : w[1], 1), b = __shfl_xor_sync(~0u, odd ? w[2] : w[3], 1);
  w[0] = odd ? a : w[0], w[1] = odd ? w[1] : a, w[2] = odd ? b : w[2], w[3] = odd ? w[3] : b;
  const uint32_t c = __shfl_xor_sync(~0u, high ? w[0] : w[2], 2), d = __shfl_xor_sync(~0u, high ? w[1] : w[3], 2);
  w[0] = high ? c : w[0], w[1] = high ? d : w[1], w[2] = high ? w[2] : c, w[3] = high ? w[3] : d;
}

} // namespace polyconv::cuda::wgmma
