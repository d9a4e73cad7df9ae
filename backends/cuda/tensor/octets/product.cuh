// product.cuh - the warpgroup product of cuda-tensor/octets, in the widths that it takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda::octets {

#define POLYCONV_D8(i)                                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define POLYCONV_D32(i) POLYCONV_D8(i), POLYCONV_D8(i + 8), POLYCONV_D8(i + 16), POLYCONV_D8(i + 24)
#define POLYCONV_T32                                                                                                   \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
  "%31"
#define POLYCONV_T56 \
  POLYCONV_T32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55"
#define POLYCONV_T68 POLYCONV_T56 ",%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67"
// Operands: the places of the two descriptors.
#define POLYCONV_PRODUCT(type, columns, text, operands, ...)                                                        \
  asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type \
               "." type " {" text "}, " operands ", p, 1, 1, 0, 1;\n}"                                              \
               : __VA_ARGS__                                                                                        \
               : "l"(a), "l"(b))
#define POLYCONV_PRODUCTS(type)                                                                                        \
  if constexpr (columns == 64)                                                                                         \
    POLYCONV_PRODUCT(type, 64, POLYCONV_T32, "%32, %33", POLYCONV_D32(0));                                             \
  else if constexpr (columns == 112)                                                                                   \
    POLYCONV_PRODUCT(type, 112, POLYCONV_T56, "%56, %57", POLYCONV_D32(0), POLYCONV_D8(32), POLYCONV_D8(40),           \
                     POLYCONV_D8(48));                                                                                 \
  else                                                                                                                 \
    POLYCONV_PRODUCT(type, 136, POLYCONV_T68, "%68, %69", POLYCONV_D32(0), POLYCONV_D32(32), "+f"(d[64]), "+f"(d[65]), \
                     "+f"(d[66]), "+f"(d[67]))

// Starts d += a b, both from shared memory: 64 rows by `columns` over 16 of depth, by four warps. The rows of a lie
// along the depth; those of b, a step of depth each, along the columns.
template <class T, int columns>
__device__ __forceinline__ void multiply(float (&d)[columns / 2], uint64_t a, uint64_t b) {
  static_assert(columns == 64 || columns == 112 || columns == 136, "no instruction written out for this width");
  if constexpr (std::is_same_v<T, __half>) {
    POLYCONV_PRODUCTS("f16");
  } else {
    POLYCONV_PRODUCTS("bf16");
  }
}

#undef POLYCONV_PRODUCTS
#undef POLYCONV_PRODUCT
#undef POLYCONV_T68
#undef POLYCONV_T56
#undef POLYCONV_T32
#undef POLYCONV_D32
#undef POLYCONV_D8

} // namespace polyconv::cuda::octets
