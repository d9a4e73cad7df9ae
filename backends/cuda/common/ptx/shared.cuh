// shared.cuh - loads from and stores to shared memory by its own addresses of 32 bits, a PTX instruction a function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace polyconv::cuda::ptx {

// Shared memory as the instructions address it.
__device__ inline uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---------------------------------------------------------------- loads

// These stay behind stores to memory that come before them.
__device__ inline uint16_t load_element(uint32_t from) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(from) : "memory");
  return v;
}
__device__ inline uint32_t load_word(uint32_t from) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}
__device__ inline uint2 load_words(uint32_t from) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
  return v;
}
// These are for what nobody writes between two barriers: the compiler may move them past stores, and what it knows of
// memory it still knows behind them.
__device__ inline uint32_t load_settled(uint32_t from) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from));
  return v;
}
__device__ inline uint4 load_shared(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from));
  return v;
}
__device__ inline float4 load_vector(uint32_t from) {
  const uint4 v = load_shared(from);
  return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}
// A word where wanted, else -1; without a branch.
__device__ inline int32_t load_word_if(bool wanted, uint32_t from) {
  int32_t v;
  asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\nmov.s32 %0, -1;\n@p ld.shared.s32 %0, [%1];\n}"
               : "=r"(v)
               : "r"(from), "r"(static_cast<int>(wanted)));
  return v;
}

// ---------------------------------------------------------------- stores

__device__ inline void store_element(uint32_t to, uint16_t v) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(v) : "memory");
}
__device__ inline void store_word(uint32_t to, uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
__device__ inline void store_words(uint32_t to, const uint4 &v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ inline void store_shared(uint32_t to, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}
__device__ inline void store_pair(uint32_t to, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
}
__device__ inline void store_vector(uint32_t to, const float *v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
               : "memory");
}
// Predicated: branches around many stores would cost more than the stores.
__device__ inline void store_element_if(bool so, uint32_t to, uint16_t v) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %0, 0;\n@p st.shared.u16 [%1], %2;\n}" ::"r"(int{so}), "r"(to), "h"(v)
               : "memory");
}
__device__ inline void store_word_if(bool so, uint32_t to, uint32_t v) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %0, 0;\n@p st.shared.u32 [%1], %2;\n}" ::"r"(int{so}), "r"(to), "r"(v)
               : "memory");
}

} // namespace polyconv::cuda::ptx
