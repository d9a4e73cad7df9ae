// global.cuh - loads from memory that a predicate guards, without a branch: many are under way at once. A PTX
// instruction a function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace polyconv::cuda::ptx {

// Half a word, the other half of which becomes zero, where `wanted`; else it stays as it is. Loads into 16 bits would
// wait for each other to share a register. Nobody writes this memory.
__device__ __forceinline__ void load_global_half_if(bool wanted, uint32_t &a, const void *from) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.nc.u16 %0, [%1]; }"
               : "+r"(a)
               : "l"(from), "r"(static_cast<int>(wanted)));
}
// One, two or four words likewise, aligned to their size.
__device__ __forceinline__ void load_global_if(bool wanted, uint32_t &a, const void *from) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.nc.b32 %0, [%1]; }"
               : "+r"(a)
               : "l"(from), "r"(static_cast<int>(wanted)));
}
__device__ __forceinline__ void load_global_if(bool wanted, uint32_t &a, uint32_t &b, const void *from) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
               : "+r"(a), "+r"(b)
               : "l"(from), "r"(static_cast<int>(wanted)));
}
__device__ __forceinline__ void load_global_if(bool wanted, uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d,
                                               const void *from) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
               : "+r"(a), "+r"(b), "+r"(c), "+r"(d)
               : "l"(from), "r"(static_cast<int>(wanted)));
}

} // namespace polyconv::cuda::ptx
