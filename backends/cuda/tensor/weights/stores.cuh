// stores.cuh - how the gradient of weights gets from registers into memory: as weights, whose channels are neighbours
// there, or as a piece of the sums of a tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// Four words of each of four neighbouring lanes change places: word j of lane i becomes word i of lane j.
__device__ inline void turn_words(uint32_t (&w)[4]) {
  const bool odd = threadIdx.x % 2 != 0, high = threadIdx.x % 4 >= 2;
  const uint32_t a = __shfl_xor_sync(~0u, odd ? w[0] : w[1], 1), b = __shfl_xor_sync(~0u, odd ? w[2] : w[3], 1);
  w[0] = odd ? a : w[0], w[1] = odd ? w[1] : a, w[2] = odd ? b : w[2], w[3] = odd ? w[3] : b;
  const uint32_t c = __shfl_xor_sync(~0u, high ? w[0] : w[2], 2), d = __shfl_xor_sync(~0u, high ? w[1] : w[3], 2);
  w[0] = high ? c : w[0], w[1] = high ? d : w[1], w[2] = high ? w[2] : c, w[3] = high ? w[3] : d;
}

} // namespace polyconv::cuda::wgmma
