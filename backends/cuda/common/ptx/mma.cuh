// mma.cuh - the matrix instruction of a warp (mma.sync) and the loads of its operands (ldmatrix), one thin function
// each. From 8.0 on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace polyconv::cuda::ptx {

// Four matrices of 8 rows x 16 bytes; lanes 8 i to 8 i + 7 have the addresses of the rows of matrix i, and every lane
// gets 4 bytes of each.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address));
}

// Likewise, but a lane gets two values of a column: those of matrices whose rows are what the product sums over.
__device__ inline void load_transposed(uint32_t (&r)[4], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address));
}

// Likewise two, by the addresses of lanes 0 to 15.
__device__ inline void load_matrices(uint32_t (&r)[2], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address));
}

// 16 pixels x 8 channels += 32 bytes of k. Sums: row lane / 4 (and 8 on), columns 2 (lane % 4) and the next.
#define POLYCONV_MMA(shape_and_types)                                                                        \
  asm("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                               \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t *b, __half) {
  POLYCONV_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
__device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t *b, __nv_bfloat16) {
  POLYCONV_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
__device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t *b, float) {
  POLYCONV_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
#undef POLYCONV_MMA

} // namespace polyconv::cuda::ptx
