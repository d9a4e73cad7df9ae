// pairs.cuh - two values of 16 bits in a word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace polyconv::cuda {

// Two values rounded to 16 bits, the first in the lower half.
__device__ inline uint32_t pair_of(float a, float b, __half) {
  const __half2 v = __floats2half2_rn(a, b);
  return reinterpret_cast<const uint32_t &>(v);
}
__device__ inline uint32_t pair_of(float a, float b, __nv_bfloat16) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const uint32_t &>(v);
}

} // namespace polyconv::cuda
