// tracks_product.cuh - the warpgroup product whose first operand is in registers, in the widths that
// cuda-tensor/banded's tracks take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda::banded {

// A second operand without swizzle: 8 columns x 16 bytes are 128 bytes together, the next 8 columns follow, and
// `bytes` further the other half of the depth.
__device__ __forceinline__ uint64_t product_descriptor(uint32_t address, int32_t bytes) {
  return uint64_t{128 >> 4} << 32 | static_cast<uint64_t>(bytes >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

#define POLYCONV_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define POLYCONV_D8(i) POLYCONV_D4(i), POLYCONV_D4(i + 4)
#define POLYCONV_T8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define POLYCONV_T12 POLYCONV_T8 ",%8,%9,%10,%11"
// `types`: depth, types and what follows the signs; `operands` are the places of the first operand's four registers and
// of the descriptor.
#define POLYCONV_PRODUCT(depth, types, end, columns, text, operands, ...)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #columns depth \
               ".f32." types "." types " {" text "}, " operands ", p, 1, 1" end ";\n}"                    \
               : __VA_ARGS__                                                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define POLYCONV_PRODUCTS(depth, types, end)                                                      \
  if constexpr (columns == 16)                                                                    \
    POLYCONV_PRODUCT(depth, types, end, 16, POLYCONV_T8, "{%8,%9,%10,%11}, %12", POLYCONV_D8(0)); \
  else                                                                                            \
    POLYCONV_PRODUCT(depth, types, end, 24, POLYCONV_T12, "{%12,%13,%14,%15}, %16", POLYCONV_D8(0), POLYCONV_D4(8))

// Starts d += a b: 64 rows by `columns` over 32 bytes of depth, by four warps.
template <class T, int columns>
__device__ __forceinline__ void multiply_registers(float (&d)[columns / 2], const uint32_t (&a)[4], uint64_t b) {
  static_assert(columns == 16 || columns == 24, "no instruction written out for this width");
  if constexpr (std::is_same_v<T, __half>) {
    POLYCONV_PRODUCTS("k16", "f16", ", 0");
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    POLYCONV_PRODUCTS("k16", "bf16", ", 0");
  } else {
    POLYCONV_PRODUCTS("k8", "tf32", "");
  }
}

#undef POLYCONV_PRODUCTS
#undef POLYCONV_PRODUCT
#undef POLYCONV_T12
#undef POLYCONV_T8
#undef POLYCONV_D8
#undef POLYCONV_D4

} // namespace polyconv::cuda::banded
