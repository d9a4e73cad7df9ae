// parts.cuh - weights of f32 as wgmma_emulated packs them: three planes of bf16, each filters x taps x channels
// in whole blocks of depth, the 32 channels of a block in the order in which the threads of a quad hold activations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include "bf16_parts.cuh"

namespace polyconv::cuda::wgmma {

inline constexpr int kParts = 3;

struct PackedParts {
  int64_t row, plane; // elements of a tap's channels, of a part

  explicit PackedParts(const polyconv_layer &l)
      : row((l.weights.size[1] + 31) / 32 * 32), plane(row * sdk::taps(l) * l.weights.size[0]) {}

  // Where channel c lies in its row: of each 8 channels, which are one thread's, 4 are for the first product of a block
  // and 4 for the second; of those two in its columns from 0 on, two in those from 8 on.
  __device__ static int64_t place_of(int64_t c) {
    const int64_t quad = c % 32 / 8, product = c % 8 / 4;
    return c / 32 * 32 + product * 16 + c % 4 / 2 * 8 + quad * 2 + c % 2;
  }
};

} // namespace polyconv::cuda::wgmma
