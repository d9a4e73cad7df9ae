// split.cuh - f32 factors as sums of bf16 for the matrix units: the largest term alone, or three, whose sum is the
// number but for the last of 24 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bf16_parts.cuh"
#include "mma/launch.cuh"

namespace polyconv::cuda::tensor {

// The operands of a warp: activations split on the way from shared memory into 1 or 3 terms, weights when packed.
template <class Tile, int Terms>
class SplitFragments {
  static constexpr int kPixels = Tile::warp_pixels / 16, kChannels = Tile::warp_channels / 16;
  using F = Frame<Tile, kSplitRow<Terms>>;

 public:
  __device__ explicit SplitFragments(uint32_t stages) : a_at_(F::activations_at(stages)) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 8 + lane / 16 * 8, chunk = lane / 8 % 2;
    b_at_ = stages + F::activations + (F::channel() + row) * kSplitRow<Terms> + (chunk ^ (row >> 2 & 1)) * kChunk;
  }
  // The block in a stage; without `all` only the first parts.
  __device__ void multiply(MmaSums<Tile> &sums, int stage, bool all) const {
    uint32_t b[Terms][kChannels][4];
#pragma unroll
    for (int part = 0; part < Terms; ++part)
#pragma unroll
      for (int j = 0; j < kChannels; ++j)
        load_matrices(b[part][j], b_at_ + stage + j * 16 * kSplitRow<Terms> + part * 32);
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      uint32_t a[Terms][4];
      load_parts(a, a_at_ + stage + i * 16 * kRow);
      if (Terms == 3 && all) {
        add_products(sums[i], a[Terms / 2], b[Terms / 2]);
        add_products(sums[i], a[0], b[Terms - 1]);
        add_products(sums[i], a[Terms - 1], b[0]);
        add_products(sums[i], a[0], b[Terms / 2]);
        add_products(sums[i], a[Terms / 2], b[0]);
      }
      add_products(sums[i], a[0], b[0]);
    }
  }

 private:
  // The parts of 16 x 16 activations. A lane gets k = t, t + 4, t + 8 and t + 12 of its rows where the instruction has
  // 2 t, 2 t + 1, 2 t + 8 and 2 t + 9; packed weights are in that order too.
  __device__ static void load_parts(uint32_t (&a)[Terms][4], uint32_t address) {
    uint32_t bits[2][4];
    load_matrices(bits[0], address), load_matrices(bits[1], address ^ 32);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float first = __uint_as_float(bits[r / 2][r % 2]), second = __uint_as_float(bits[r / 2][r % 2 + 2]);
#pragma unroll
      for (int part = 0; part < Terms; ++part) a[part][r] = take_part(first, second, Terms > 1 && part == 0);
    }
  }
  __device__ static void add_products(float (&sums)[2 * kChannels][4], const uint32_t (&a)[4],
                                      const uint32_t (&b)[kChannels][4]) {
#pragma unroll
    for (int j = 0; j < 2 * kChannels; ++j) multiply_add(sums[j], a, b[j / 2] + j % 2 * 2, __nv_bfloat16());
  }

  uint32_t a_at_, b_at_;
};

} // namespace polyconv::cuda::tensor
