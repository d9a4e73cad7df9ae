// numbers.cuh - arithmetic that CUDA C++ has no name for, a PTX instruction a function. From 8.0 on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda::ptx {

// Two words as one of 64 bits.
__device__ inline uint64_t joined(uint32_t low, uint32_t high) {
  uint64_t both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(low), "r"(high));
  return both;
}

// The greater; NaN where either is.
__device__ inline float greater(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
// The less; NaN where either is.
__device__ inline float lesser(float a, float b) {
  float c;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

// To the nearest TF32, ties away from zero.
__device__ inline float nearest_tf32(float v) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(v));
  return __uint_as_float(rounded);
}

// Two numbers rounded to nearest in a 16-bit type, the first in the lower half; where `relu`, zero for what is below. A
// NaN stays one.
template <class T>
__device__ inline uint32_t rounded_pair(float low, float high, bool relu) {
  uint32_t word;
  if constexpr (std::is_same_v<T, __half>) {
    if (relu)
      asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    if (relu)
      asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}
// Two numbers cut off towards zero to bf16, the first in the lower half.
__device__ inline uint32_t cut_off_pair(float low, float high) {
  uint32_t word;
  asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// sum += a b for the two values of each.
template <class T>
__device__ inline void multiply_add_pair(uint32_t &sum, uint32_t a, uint32_t b) {
  if constexpr (std::is_same_v<T, __half>)
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  else
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
}

// Two values rounded to a 16-bit type; where `relu`, zero for what is below. A NaN stays one.
template <class T>
__device__ inline uint32_t pack_pair(float low, float high, bool relu) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    if (relu) pair = __hmax2_nan(pair, __floats2bfloat162_rn(0, 0));
    return reinterpret_cast<const uint32_t &>(pair);
  } else {
    __half2 pair = __floats2half2_rn(low, high);
    if (relu) pair = __hmax2_nan(pair, __floats2half2_rn(0, 0));
    return reinterpret_cast<const uint32_t &>(pair);
  }
}

} // namespace polyconv::cuda::ptx
