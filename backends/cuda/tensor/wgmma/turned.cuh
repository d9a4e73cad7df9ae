// turned.cuh - how sums leave where channels are the rows of the Hopper product and pixels its columns
// ("turned"). A product of 64 rows reads its rows and columns from shared memory anew, so that wide ones read least;
// turned, layers of 64 or 128 channels have products as wide as a tile's pixels. A warpgroup turns the sums of 64
// channels back on their way into shared memory, and one of its threads has the TMA carry them out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/ptx/hopper.cuh"
#include "wgmma/leave.cuh"

namespace polyconv::cuda::wgmma {

// The channel of this thread's sums within the 64 of a product; the others are those of 8 channels on.
__device__ inline int32_t turned_channel() {
  return static_cast<int32_t>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
}

// The biases of both; zeros where there is none.
__device__ inline void turned_bias(const float *bias, int32_t channel, int32_t channels, float (&values)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t c = channel + turned_channel() + 8 * half;
    values[half] = bias != nullptr && c < channels ? bias[c] : 0;
  }
}

// `Pixels` columns of sums, to rows of 128 bytes of shared memory swizzled as the TMA does: a row a pixel, with all 64
// channels, or with 32 of 4 bytes each and the other 32 behind all rows.
template <class T, int Pixels>
__device__ inline void put_turned(const float *sums, const float (&bias)[2], bool relu, uint32_t to) {
  if constexpr (sizeof(T) == 2) {
    const uint32_t row = threadIdx.x % 8, chunk = threadIdx.x % 128 / 32 * 2 + threadIdx.x % 16 / 8;
    const uint32_t mine = to + row * 128 + (chunk ^ row) * 16;
#pragma unroll
    for (int j = 0; j < Pixels / 8; ++j) {
      const float *v = sums + 4 * j;
      const uint32_t low = ptx::pack_pair<T>(v[0] + bias[0], v[1] + bias[0], relu);
      const uint32_t high = ptx::pack_pair<T>(v[2] + bias[1], v[3] + bias[1], relu);
      ptx::store_transposed(mine + j * 8 * 128, low, high);
    }
  } else {
    const uint32_t channel = static_cast<uint32_t>(turned_channel()), row = threadIdx.x % 4 * 2;
    to += channel / 32 * Pixels * 128 + channel % 4 * 4 + row * 128;
#pragma unroll
    for (int i = 0; i < 4; ++i) { // channels 8 on for i >= 2, the next pixel for odd ones
      const uint32_t chunk = (channel % 32 + i / 2 * 8) / 4, mine = to + (chunk ^ (row + i % 2)) * 16 + i % 2 * 128;
#pragma unroll
      for (int j = 0; j < Pixels / 8; ++j) {
        const float v = sums[4 * j + i] + bias[i / 2];
        ptx::store_shared(mine + j * 8 * 128, relu ? ptx::greater(v, 0) : v);
      }
    }
  }
}

// A tile leaves, with bias and relu at most.
template <class Tile>
class TurnedOutlet {
  using T = typename Tile::T;
  static constexpr int kPixels = Tile::pass_pixels, kBoxes = sizeof(T) / 2; // boxes of 64 channels

 public:
  __device__ explicit TurnedOutlet(uint32_t memory)
      : group_(static_cast<int>(warp_in_block() / 4)), mine_(memory + group_ * (Tile::leave_bytes / Tile::groups)) {}

  __device__ void leave(const Product &p, const float (&sums)[Tile::rows][Tile::columns / 2], int32_t pixel,
                        int32_t channel) {
    float bias[Tile::rows][2];
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
      turned_bias(static_cast<const float *>(p.conv.epilogue.bias), channel + 64 * row, p.channels, bias[row]);
    const bool relu = p.conv.epilogue.activation == POLYCONV_ACT_RELU;
#pragma unroll
    for (int pass = 0; pass < Tile::pixels / kPixels; ++pass) {
      close();
      ptx::meet(group_ + 1, 128);
#pragma unroll
      for (int row = 0; row < Tile::rows; ++row)
        put_turned<T, kPixels>(sums[row] + pass * (kPixels / 2), bias[row], relu, mine_ + row * kBoxes * kPixels * 128);
      ptx::fence_for_tma();
      ptx::meet(group_ + 1, 128);
      if (threadIdx.x % 128 == 0) send(p, channel, pixel + pass * kPixels);
    }
  }
  // Until the TMA has read all boxes.
  __device__ void close() const {
    if (threadIdx.x % 128 == 0) ptx::stores_read<0>();
  }

 private:
  __device__ void send(const Product &p, int32_t channel, int32_t pixel) const {
#pragma unroll
    for (int box = 0; box < Tile::rows * kBoxes; ++box) {
      const int32_t c = channel + box * (64 / kBoxes);
      if (c < p.channels) store_results<Tile>(p, mine_ + box * kPixels * 128, c, pixel);
    }
    ptx::stores_commit();
  }

  const int group_;
  const uint32_t mine_;
};

} // namespace polyconv::cuda::wgmma
