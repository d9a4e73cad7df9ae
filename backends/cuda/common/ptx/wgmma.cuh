// wgmma.cuh - the product of a warpgroup (wgmma) and what surrounds it, a PTX instruction a function. Only for code of
// 90a. "PTX ISA" 8.0 and later describes each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda::ptx {

// Gives registers back to the block, or takes them; all four warps of a warpgroup.
template <int Count>
__device__ inline void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

// Before the first product that uses accumulators which other instructions have touched.
__device__ inline void products_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most `Pending` committed groups of products are under way.
template <int Pending>
__device__ inline void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// A matrix in shared memory whose rows are 128 bytes along the depth, swizzled as TMA's 128-byte mode leaves them; it
// begins at a multiple of 1024 bytes. Eight rows are 1024 bytes. Adding 2 goes 32 bytes along the depth.
__device__ inline uint64_t matrix_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 >> 4} << 32,
                     kUnused = uint64_t{1} << 16;
  return kSwizzle128 | kEightRows | kUnused | ((address & 0x3ffff) >> 4);
}

// Likewise with rows of 64 bytes, as the 64-byte mode leaves them; it begins at a multiple of 512 bytes.
__device__ inline uint64_t narrow_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle64 = uint64_t{2} << 62, kEightRows = uint64_t{512 >> 4} << 32, kUnused = uint64_t{1} << 16;
  return kSwizzle64 | kEightRows | kUnused | ((address & 0x3ffff) >> 4);
}

// A matrix that lies across the depth: rows of 128 bytes are 64 of its rows or columns at one place of the depth,
// swizzled as TMA's 128-byte mode leaves them; the next 64 begin `bytes` further. Adding 128 goes 16 along the depth.
__device__ inline uint64_t across_descriptor(uint32_t address, int32_t bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightPlaces = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kEightPlaces | static_cast<uint64_t>(bytes >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

// Without swizzle: 8 rows x 16 bytes are 128 bytes together, the next 8 rows follow, and `bytes` further the other half
// of a product's depth.
__device__ inline uint64_t plain_descriptor(uint32_t address, int32_t bytes) {
  return uint64_t{128 >> 4} << 32 | static_cast<uint64_t>(bytes >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

// ---------------------------------------------------------------- products

// The widths that are written out: of each its accumulators' places in the instruction's text, the next six places, and
// the accumulators as operands.
#define POLYCONV_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define POLYCONV_R8(d, i) POLYCONV_R4(d, i), POLYCONV_R4(d, i + 4)
#define POLYCONV_R16(d, i) POLYCONV_R8(d, i), POLYCONV_R8(d, i + 8)
#define POLYCONV_R32(d, i) POLYCONV_R16(d, i), POLYCONV_R16(d, i + 16)
#define POLYCONV_T4 "%0,%1,%2,%3"
#define POLYCONV_T8 POLYCONV_T4 ",%4,%5,%6,%7"
#define POLYCONV_T12 POLYCONV_T8 ",%8,%9,%10,%11"
#define POLYCONV_T16 POLYCONV_T12 ",%12,%13,%14,%15"
#define POLYCONV_T32 POLYCONV_T16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define POLYCONV_T40 POLYCONV_T32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define POLYCONV_T48 POLYCONV_T40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define POLYCONV_T56 POLYCONV_T48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define POLYCONV_T64 POLYCONV_T56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define POLYCONV_T68 POLYCONV_T64 ",%64,%65,%66,%67"
#define POLYCONV_T80 POLYCONV_T68 ",%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define POLYCONV_T96 POLYCONV_T80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define POLYCONV_T112 POLYCONV_T96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define POLYCONV_T116 POLYCONV_T112 ",%112,%113,%114,%115"
#define POLYCONV_T128 POLYCONV_T116 ",%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define POLYCONV_WIDTHS(FORM, depth, types)                                                                    \
  if constexpr (N == 8)                                                                                        \
    FORM(8, depth, types, POLYCONV_T4, "%4", "%5", "%6", "%7", "%8", "%9", POLYCONV_R4(d, 0));                 \
  else if constexpr (N == 16)                                                                                  \
    FORM(16, depth, types, POLYCONV_T8, "%8", "%9", "%10", "%11", "%12", "%13", POLYCONV_R8(d, 0));            \
  else if constexpr (N == 24)                                                                                  \
    FORM(24, depth, types, POLYCONV_T12, "%12", "%13", "%14", "%15", "%16", "%17", POLYCONV_R8(d, 0),          \
         POLYCONV_R4(d, 8));                                                                                   \
  else if constexpr (N == 32)                                                                                  \
    FORM(32, depth, types, POLYCONV_T16, "%16", "%17", "%18", "%19", "%20", "%21", POLYCONV_R16(d, 0));        \
  else if constexpr (N == 64)                                                                                  \
    FORM(64, depth, types, POLYCONV_T32, "%32", "%33", "%34", "%35", "%36", "%37", POLYCONV_R32(d, 0));        \
  else if constexpr (N == 80)                                                                                  \
    FORM(80, depth, types, POLYCONV_T40, "%40", "%41", "%42", "%43", "%44", "%45", POLYCONV_R32(d, 0),         \
         POLYCONV_R8(d, 32));                                                                                  \
  else if constexpr (N == 96)                                                                                  \
    FORM(96, depth, types, POLYCONV_T48, "%48", "%49", "%50", "%51", "%52", "%53", POLYCONV_R32(d, 0),         \
         POLYCONV_R16(d, 32));                                                                                 \
  else if constexpr (N == 112)                                                                                 \
    FORM(112, depth, types, POLYCONV_T56, "%56", "%57", "%58", "%59", "%60", "%61", POLYCONV_R32(d, 0),        \
         POLYCONV_R16(d, 32), POLYCONV_R8(d, 48));                                                             \
  else if constexpr (N == 128)                                                                                 \
    FORM(128, depth, types, POLYCONV_T64, "%64", "%65", "%66", "%67", "%68", "%69", POLYCONV_R32(d, 0),        \
         POLYCONV_R32(d, 32));                                                                                 \
  else if constexpr (N == 136)                                                                                 \
    FORM(136, depth, types, POLYCONV_T68, "%68", "%69", "%70", "%71", "%72", "%73", POLYCONV_R32(d, 0),        \
         POLYCONV_R32(d, 32), POLYCONV_R4(d, 64));                                                             \
  else if constexpr (N == 160)                                                                                 \
    FORM(160, depth, types, POLYCONV_T80, "%80", "%81", "%82", "%83", "%84", "%85", POLYCONV_R32(d, 0),        \
         POLYCONV_R32(d, 32), POLYCONV_R16(d, 64));                                                            \
  else if constexpr (N == 192)                                                                                 \
    FORM(192, depth, types, POLYCONV_T96, "%96", "%97", "%98", "%99", "%100", "%101", POLYCONV_R32(d, 0),      \
         POLYCONV_R32(d, 32), POLYCONV_R32(d, 64));                                                            \
  else if constexpr (N == 224)                                                                                 \
    FORM(224, depth, types, POLYCONV_T112, "%112", "%113", "%114", "%115", "%116", "%117", POLYCONV_R32(d, 0), \
         POLYCONV_R32(d, 32), POLYCONV_R32(d, 64), POLYCONV_R16(d, 96));                                       \
  else if constexpr (N == 232)                                                                                 \
    FORM(232, depth, types, POLYCONV_T116, "%116", "%117", "%118", "%119", "%120", "%121", POLYCONV_R32(d, 0), \
         POLYCONV_R32(d, 32), POLYCONV_R32(d, 64), POLYCONV_R16(d, 96), POLYCONV_R4(d, 112));                  \
  else if constexpr (N == 256)                                                                                 \
  FORM(256, depth, types, POLYCONV_T128, "%128", "%129", "%130", "%131", "%132", "%133", POLYCONV_R32(d, 0),   \
       POLYCONV_R32(d, 32), POLYCONV_R32(d, 64), POLYCONV_R32(d, 96))
template <int N>
constexpr bool kProductOf = N == 8 || N == 16 || N == 24 || N == 32 || N == 64 || N == 80 || N == 96 || N == 112 ||
                            N == 128 || N == 136 || N == 160 || N == 192 || N == 224 || N == 232 || N == 256;

// 64 rows by N columns. The last operands of 16-bit products say whether factors lie along their rows.
#define POLYCONV_BEGIN(p_at) "{\n.reg .pred p;\nsetp.ne.b32 p, " p_at ", 0;\nwgmma.mma_async.sync.aligned.m64n"
#define POLYCONV_FROM_SHARED(N, depth, types, text, p0, p1, p2, p3, p4, p5, ...)                                   \
  asm volatile(POLYCONV_BEGIN(p2) #N depth ".f32" types " {" text "}, " p0 ", " p1 ", p, 1, 1, " p3 ", " p4 ";\n}" \
               : __VA_ARGS__                                                                                       \
               : "l"(a), "l"(b), "r"(accumulate), "n"(TransposedA ? 1 : 0), "n"(TransposedB ? 1 : 0))
#define POLYCONV_FROM_SHARED_TF32(N, depth, types, text, p0, p1, p2, p3, p4, p5, ...)              \
  asm volatile(POLYCONV_BEGIN(p2) #N depth ".f32" types " {" text "}, " p0 ", " p1 ", p, 1, 1;\n}" \
               : __VA_ARGS__                                                                       \
               : "l"(a), "l"(b), "r"(accumulate))
#define POLYCONV_FROM_REGISTERS(N, depth, types, text, p0, p1, p2, p3, p4, p5, ...)                       \
  asm volatile(POLYCONV_BEGIN(p5) #N depth ".f32" types " {" text "}, {" p0 "," p1 "," p2 "," p3 "}, " p4 \
                                           ", p, 1, 1, 0;\n}"                                             \
               : __VA_ARGS__                                                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
#define POLYCONV_FROM_REGISTERS_TF32(N, depth, types, text, p0, p1, p2, p3, p4, p5, ...)                  \
  asm volatile(POLYCONV_BEGIN(p5) #N depth ".f32" types " {" text "}, {" p0 "," p1 "," p2 "," p3 "}, " p4 \
                                           ", p, 1, 1;\n}"                                                \
               : __VA_ARGS__                                                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))

// Starts d = a b^T (+ d where `accumulate`): 64 rows by N columns over 32 bytes of depth, by four warps. Thread t of
// the warpgroup has of rows 16 (t / 32) + t % 32 / 4 (+ 8) the columns 8 j + t % 4 * 2 (+ 1): d[4 j], d[4 j + 1], and
// of the lower row d[4 j + 2], d[4 j + 3]. Transposed: a factor lies along its rows, not along the depth (16 bits
// only).
template <class T, int N, bool TransposedA = false, bool TransposedB = TransposedA>
__device__ inline void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {
  static_assert(kProductOf<N>, "no instruction written out for this width");
  if constexpr (std::is_same_v<T, __half>) {
    POLYCONV_WIDTHS(POLYCONV_FROM_SHARED, "k16", ".f16.f16");
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    POLYCONV_WIDTHS(POLYCONV_FROM_SHARED, "k16", ".bf16.bf16");
  } else {
    static_assert(!TransposedA && !TransposedB, "factors of TF32 lie along the depth");
    POLYCONV_WIDTHS(POLYCONV_FROM_SHARED_TF32, "k8", ".tf32.tf32");
  }
}

// Likewise with a from registers. 16 bits, 16 of depth: a[0] has of the upper row the pair of columns t % 4 * 2, a[1]
// of the lower row, a[2] and a[3] of both the pair 8 columns on. TF32, 8 of depth: column t % 4 in place of pairs, and
// 4 on. Those registers are read until the products are done.
template <class T, int N>
__device__ inline void multiply_held(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  static_assert(kProductOf<N>, "no instruction written out for this width");
  if constexpr (std::is_same_v<T, __half>) {
    POLYCONV_WIDTHS(POLYCONV_FROM_REGISTERS, "k16", ".f16.f16");
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    POLYCONV_WIDTHS(POLYCONV_FROM_REGISTERS, "k16", ".bf16.bf16");
  } else {
    POLYCONV_WIDTHS(POLYCONV_FROM_REGISTERS_TF32, "k8", ".tf32.tf32");
  }
}

#undef POLYCONV_BEGIN
#undef POLYCONV_FROM_REGISTERS_TF32
#undef POLYCONV_FROM_REGISTERS
#undef POLYCONV_FROM_SHARED_TF32
#undef POLYCONV_FROM_SHARED
#undef POLYCONV_WIDTHS
#undef POLYCONV_T128
#undef POLYCONV_T116
#undef POLYCONV_T112
#undef POLYCONV_T96
#undef POLYCONV_T80
#undef POLYCONV_T68
#undef POLYCONV_T64
#undef POLYCONV_T56
#undef POLYCONV_T48
#undef POLYCONV_T40
#undef POLYCONV_T32
#undef POLYCONV_T16
#undef POLYCONV_T12
#undef POLYCONV_T8
#undef POLYCONV_T4
#undef POLYCONV_R32
#undef POLYCONV_R16
#undef POLYCONV_R8
#undef POLYCONV_R4

} // namespace polyconv::cuda::ptx
