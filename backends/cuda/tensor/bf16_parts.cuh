// bf16_parts.cuh - f32 numbers as sums of bf16, rounded to nearest one after the other: the first has the range and 8
// bits of the number, the next 8 bits more; three are the number but for the last of 24 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace polyconv::cuda::tensor {

// Takes the next bf16 of two numbers, the first in the lower half, and leaves what remains of them.
__device__ inline uint32_t take_part(float &a, float &b) {
  const __nv_bfloat162 parts = __floats2bfloat162_rn(a, b);
  const auto pair = reinterpret_cast<const uint32_t &>(parts);
  a -= __uint_as_float(pair << 16);
  b -= __uint_as_float(pair & 0xffff0000u);
  return pair;
}

// Part 0, 1 or 2 of a number. What follows an infinite part is NaN.
__device__ inline __nv_bfloat16 part_of(float v, int part) {
  __nv_bfloat16 taken = __float2bfloat16_rn(v);
  for (int i = 0; i < part; ++i) {
    v -= __bfloat162float(taken);
    taken = __float2bfloat16_rn(v);
  }
  return taken;
}

} // namespace polyconv::cuda::tensor
