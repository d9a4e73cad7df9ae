// bf16_parts.cuh - f32 numbers as sums of bf16, one after the other. The first has the range and 8 bits of the number:
// it is cut off, as the largest numbers would round to Inf. What is left is rounded to nearest, 8 bits at a time; three
// parts are the number but for what lies below the smallest normal bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/ptx/numbers.cuh"

namespace polyconv::cuda::tensor {

// Two numbers as bf16, the first in the lower half; `cut_off`: towards zero, else to nearest.
__device__ inline uint32_t two_parts(float a, float b, bool cut_off) {
  return cut_off ? ptx::cut_off_pair(a, b) : ptx::rounded_pair<__nv_bfloat16>(a, b, false);
}

// Takes the next bf16 of two numbers and leaves what remains of them. `cut_off`: the first of several.
__device__ inline uint32_t take_part(float &a, float &b, bool cut_off) {
  const uint32_t pair = two_parts(a, b, cut_off);
  a -= __uint_as_float(pair << 16);
  b -= __uint_as_float(pair & 0xffff0000u);
  return pair;
}

// Part 0, 1 or 2 of a number; `several`: there is more than one. What follows an infinite part is NaN.
__device__ inline __nv_bfloat16 part_of(float v, int part) {
  __nv_bfloat16 taken = __float2bfloat16_rz(v);
  for (int i = 0; i < part; ++i) {
    v -= __bfloat162float(taken);
    taken = __float2bfloat16_rn(v);
  }
  return taken;
}

} // namespace polyconv::cuda::tensor
