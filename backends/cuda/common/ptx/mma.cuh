// mma.cuh - the matrix instruction of a warp (mma.sync), and the loads and stores of 8 x 8 matrices that go with it
// (ldmatrix, stmatrix): a PTX instruction a function. From 8.0 on, stores from 9.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda::ptx {

// ---------------------------------------------------------------- matrices in shared memory

// Four matrices of 8 rows x 16 bytes; lanes 8 i to 8 i + 7 have the addresses of the rows of matrix i, and every lane
// gets 4 bytes of each.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row));
}
// Likewise, but a lane gets two values of a column: those of matrices whose rows are what the product sums over.
__device__ inline void load_transposed(uint32_t (&r)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row));
}
// Two, by the addresses of lanes 0 to 15.
__device__ inline void load_matrices(uint32_t (&r)[2], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(row));
}
// Four matrices to rows of 16 bytes, by the addresses of lanes 8 i to 8 i + 7 for matrix i; every lane gives of each
// the pair (row lane / 4, columns lane % 4 * 2 and on).
__device__ inline void store_matrices(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
// Two, whose columns go to rows of 16 bytes: by the addresses of lanes 0 to 7 and 8 to 15.
__device__ inline void store_transposed(uint32_t row, uint32_t a, uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [%0], {%1, %2};" ::"r"(row), "r"(a), "r"(b)
               : "memory");
}

// ---------------------------------------------------------------- products

// 16 pixels x 8 channels over 32 or 16 bytes of k; of the sums a lane has row lane / 4 (and 8 on) and columns
// 2 (lane % 4) and the next.
#define POLYCONV_IN_PLACE(product, ...)                        \
  asm("mma.sync.aligned." product ", {%0, %1, %2, %3};"        \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) \
      : __VA_ARGS__)
#define POLYCONV_ONTO(product, ...)                            \
  asm("mma.sync.aligned." product ", {%10, %11, %12, %13};"    \
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3]) \
      : __VA_ARGS__, "f"(start[0]), "f"(start[1]), "f"(start[2]), "f"(start[3]))
#define POLYCONV_HALF_ONTO(product, ...)                       \
  asm("mma.sync.aligned." product ", {%7, %8, %9, %10};"       \
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3]) \
      : __VA_ARGS__, "f"(start[0]), "f"(start[1]), "f"(start[2]), "f"(start[3]))
#define POLYCONV_MMA(FORM, a0, a1, a2, a3)                                                                             \
  if constexpr (std::is_same_v<T, __half>)                                                                             \
    FORM("m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}", "r"(a0), "r"(a1), "r"(a2),   \
         "r"(a3), "r"(b0), "r"(b1));                                                                                   \
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)                                                                 \
    FORM("m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}", "r"(a0), "r"(a1), "r"(a2), \
         "r"(a3), "r"(b0), "r"(b1));                                                                                   \
  else                                                                                                                 \
    FORM("m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}", "r"(a0), "r"(a1), "r"(a2),  \
         "r"(a3), "r"(b0), "r"(b1))
#define POLYCONV_MMA_HALF(FORM)                                                                         \
  if constexpr (std::is_same_v<T, __half>)                                                              \
    FORM("m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}", "r"(a0), "r"(a1), "r"(b)); \
  else                                                                                                  \
    FORM("m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}", "r"(a0), "r"(a1), "r"(b))

// sum += a b.
template <class T>
__device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t *b, T) {
  const uint32_t b0 = b[0], b1 = b[1];
  POLYCONV_MMA(POLYCONV_IN_PLACE, a[0], a[1], a[2], a[3]);
}
template <class T>
__device__ inline void multiply_add_half(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t b, T) {
  POLYCONV_MMA_HALF(POLYCONV_IN_PLACE);
}
// sum = start + a b, where start may be the sum: registers of its own, into which nothing has to be moved first.
template <class T>
__device__ inline void multiply_onto(float (&sum)[4], const float *start, const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1) {
  POLYCONV_MMA(POLYCONV_ONTO, a[0], a[1], a[2], a[3]);
}
template <class T>
__device__ inline void multiply_onto(float (&sum)[4], const float *start, const uint4 &a, uint32_t b0, uint32_t b1) {
  POLYCONV_MMA(POLYCONV_ONTO, a.x, a.y, a.z, a.w);
}
template <class T>
__device__ inline void multiply_onto(float (&sum)[4], const float *start, uint32_t a0, uint32_t a1, uint32_t b) {
  POLYCONV_MMA_HALF(POLYCONV_HALF_ONTO);
}

#undef POLYCONV_MMA_HALF
#undef POLYCONV_MMA
#undef POLYCONV_HALF_ONTO
#undef POLYCONV_ONTO
#undef POLYCONV_IN_PLACE

} // namespace polyconv::cuda::ptx
