// multiply_begin.cuh - the first product of a sum, onto what it begins with: registers of its own, so that nothing is
// moved into the sum first. As ptx::multiply_add else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda::few {

#define POLYCONV_MMA_BEGIN(shape_and_types, b_registers, ...)                                     \
  asm("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, " b_registers ", {%4, %5, %6, %7};" \
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])                                    \
      : "f"(begin[0]), "f"(begin[1]), "f"(begin[2]), "f"(begin[3]), __VA_ARGS__)
template <class T>
__device__ inline void multiply_begin(float (&sum)[4], const float (&begin)[4], const uint32_t (&a)[4],
                                      const uint32_t *b) {
  if constexpr (std::is_same_v<T, __half>)
    POLYCONV_MMA_BEGIN("m16n8k16.row.col.f32.f16.f16.f32", "{%8, %9, %10, %11}, {%12, %13}", "r"(a[0]), "r"(a[1]),
                       "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    POLYCONV_MMA_BEGIN("m16n8k16.row.col.f32.bf16.bf16.f32", "{%8, %9, %10, %11}, {%12, %13}", "r"(a[0]), "r"(a[1]),
                       "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <class T>
__device__ inline void multiply_begin(float (&sum)[4], const float (&begin)[4], const uint32_t (&a)[2], uint32_t b) {
  if constexpr (std::is_same_v<T, __half>)
    POLYCONV_MMA_BEGIN("m16n8k8.row.col.f32.f16.f16.f32", "{%8, %9}, {%10}", "r"(a[0]), "r"(a[1]), "r"(b));
  else
    POLYCONV_MMA_BEGIN("m16n8k8.row.col.f32.bf16.bf16.f32", "{%8, %9}, {%10}", "r"(a[0]), "r"(a[1]), "r"(b));
}
#undef POLYCONV_MMA_BEGIN

} // namespace polyconv::cuda::few
