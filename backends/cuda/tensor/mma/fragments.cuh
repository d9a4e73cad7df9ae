// fragments.cuh - how the operands of the matrix instruction lie in shared memory and registers.
//
// A row of an operand (a pixel, a channel) is 64 bytes of k: four chunks of 16, permuted from row to row so that eight
// rows of one chunk, which ldmatrix reads at once, lie in all banks. Everything here counts bytes: 16 values of 16 bits
// or 8 of 32 make the same addresses and the same registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pairs.cuh"
#include "common/ptx/mma.cuh"
#include "mma/product.hpp"

namespace polyconv::cuda::tensor {

using ptx::load_matrices;
using ptx::load_transposed;
using ptx::multiply_add;

// Byte offset of a chunk of a row.
__device__ inline int slot(int row, int chunk) {
  return row * kRow + ((chunk ^ (row >> 1 & 3)) * kChunk);
}

// To the nearest TF32, ties away from zero, Inf and NaN as they are; the instruction ignores the 13 bits below.
__device__ inline uint32_t rounded_to_tf32(uint32_t bits) {
  return fabsf(__uint_as_float(bits)) < INFINITY ? bits + 0x1000 : bits;
}

// Activations as they are multiplied, where they are f32; packed weights are rounded already.
template <class T, int Count>
__device__ inline void round_factors(uint32_t (&bits)[Count]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (uint32_t &each : bits) each = rounded_to_tf32(each);
  }
}

// The sums of a thread: 16 x 8 at a time.
template <class Tile>
using MmaSums = float[Tile::warp_pixels / 16][Tile::warp_channels / 8][4];

// Where a warp stands in its tile, and what a stage holds.
template <class Tile, int WeightsRow = kRow>
struct Frame {
  static constexpr int activations = Tile::pixels * kRow, weights = Tile::channels * WeightsRow; // bytes
  static constexpr int stage = activations + weights;

  __device__ static int pixel() { return static_cast<int>(threadIdx.x) / 32 % Tile::warps_along * Tile::warp_pixels; }
  __device__ static int channel() {
    return static_cast<int>(threadIdx.x) / 32 / Tile::warps_along * Tile::warp_channels;
  }
  // The lane's address of the warp's first 16 pixels and 32 bytes of k: the other 32 are 32 exclusive-or on.
  __device__ static uint32_t activations_at(uint32_t stages) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return stages + pixel() * kRow + slot(lane % 16, lane / 16);
  }
};

// The operands of a warp for 32 bytes of k.
template <class T, class Tile>
class Fragments {
  static constexpr int kPixels = Tile::warp_pixels / 16, kChannels = Tile::warp_channels / 16;

 public:
  // The lane's addresses in stage 0 for the first half of a block: what load() adds to.
  struct At {
    uint32_t a, b;
    __device__ explicit At(uint32_t stages) : a(Frame<Tile>::activations_at(stages)) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      b = stages + Frame<Tile>::activations + Frame<Tile>::channel() * kRow +
          slot(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    }
  };

  // Half 0 or 1 of the block in a stage.
  __device__ void load(const At &at, int stage, int half) {
#pragma unroll
    for (int i = 0; i < kPixels; ++i) load_matrices(a_[i], (at.a ^ half * 32) + stage + i * 16 * kRow);
#pragma unroll
    for (int j = 0; j < kChannels; ++j) load_matrices(b_[j], (at.b ^ half * 32) + stage + j * 16 * kRow);
  }
  // There and back along the channels, so that each product has an operand in common with the one before.
  __device__ void multiply(MmaSums<Tile> &sums) {
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      round_factors<T>(a_[i]);
#pragma unroll
      for (int q = 0; q < 2 * kChannels; ++q) {
        const int j = i % 2 ? 2 * kChannels - 1 - q : q;
        multiply_add(sums[i][j], a_[i], b_[j / 2] + j % 2 * 2, T());
      }
    }
  }

 private:
  uint32_t a_[kPixels][4], b_[kChannels][4];
};

} // namespace polyconv::cuda::tensor
