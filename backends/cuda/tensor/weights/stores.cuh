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

// 16 rows of a tile by 128 bytes of weights in a warp's own shared memory: written as a product leaves sums, a pair of
// channels a lane; read as rows, 16 bytes a lane. Which 16 bytes of a row are where depends on the row, so that neither
// way meets a bank twice.
class Slice {
  static constexpr int kPlaces = 8; // of 16 bytes, of a row

 public:
  static constexpr int kBytes = 16 * kPlaces * 16;
  static constexpr int kLines = 32 / kPlaces; // rows that a warp reads at once
  template <class Out>
  static constexpr int vector = 16 / sizeof(Out);
  template <class Out>
  static constexpr int columns = kPlaces *vector<Out>;

  __device__ explicit Slice(unsigned char *memory) : memory_(memory) {}

  // What this lane reads: row `line` of kLines, and which 16 bytes of it.
  __device__ static int32_t line() { return static_cast<int32_t>(threadIdx.x % 32) / kPlaces; }
  __device__ static int32_t place() { return static_cast<int32_t>(threadIdx.x) % kPlaces; }

  // `sums`: of the slice's columns, as a product has them: two of a row, two of the row eight below, for each eight
  // columns. All lanes may read then.
  template <class Out>
  __device__ __forceinline__ void write(const float *sums) const {
    constexpr int kPairs = vector<Out> / 2; // of 16 bytes
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
    unsigned char *const begin = memory_ + lane / 4 * (kPlaces * 16) + lane % 4 % kPairs * (2 * sizeof(Out));
#pragma unroll
    for (int i = 0; i < columns<Out> / 8; ++i) {
      const int32_t place = i * 4 / kPairs + lane % 4 / kPairs;
      unsigned char *const to = begin + (place ^ lane / 4) * 16;
      store_pair(reinterpret_cast<Out *>(to), sums[4 * i], sums[4 * i + 1], true, true);
      store_pair(reinterpret_cast<Out *>(to + 8 * kPlaces * 16), sums[4 * i + 2], sums[4 * i + 3], true, true);
    }
    __syncwarp();
  }
  // This lane's weights of row turn * kLines + line(), to where 16 bytes are aligned; `count` of them, to anywhere.
  template <class Out>
  __device__ void store(Out *to, int32_t turn) const {
    *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(at(turn));
  }
  template <class Out>
  __device__ void store_elements(Out *to, int32_t turn, int32_t count) const {
    const auto *const from = reinterpret_cast<const Out *>(at(turn));
#pragma unroll 1
    for (int32_t i = 0; i < count; ++i) to[i] = from[i];
  }

 private:
  __device__ const unsigned char *at(int32_t turn) const {
    const int32_t row = turn * kLines + line();
    return memory_ + (row * kPlaces + (place() ^ row % 8)) * 16;
  }

  unsigned char *const memory_;
};

} // namespace polyconv::cuda::wgmma
