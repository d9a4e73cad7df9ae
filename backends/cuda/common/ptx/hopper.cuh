// hopper.cuh - the instructions of compute capability 9.0 that CUDA C++ has no name for, one thin function each:
// barriers in shared memory that count bytes, the tensor memory accelerator (TMA), clusters, and the warpgroup product.
// Only for code of 90a. "PTX ISA" 8.0 and later describes each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "common/device/launch.hpp"
#include "common/ptx/tma.cuh"
#include "common/stress.cuh"

namespace polyconv::cuda::ptx {

// Shared memory as the instructions address it.
__device__ inline uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
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

__device__ inline float4 load_vector(uint32_t from) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from));
  return v;
}
__device__ inline void store_vector(uint32_t to, const float *v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
               : "memory");
}
__device__ inline uint32_t load_word(uint32_t from) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}
__device__ inline void store_word(uint32_t to, uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
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

using cuda::await_previous, cuda::let_next_begin; // common/launch.hpp

// ---------------------------------------------------------------- barriers

// A barrier's phase ends when `arrivals` have come and all expected bytes with them.
__device__ inline void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// After the inits: the TMA sees them.
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and has the phase wait for `bytes` more.
__device__ inline void barrier_expect(uint32_t barrier, int bytes) {
  dawdle();
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  dawdle();
}
// Arrives when all of this thread's cp.async are done.
__device__ inline void barrier_arrive_copied(uint32_t barrier) {
  dawdle();
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
  dawdle();
}
__device__ inline void barrier_arrive(uint32_t barrier) {
  dawdle();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  dawdle();
}
// Waits for the end of the phase of a parity: 0 for the first, then 1, 0, ...; parity 1 of a new barrier is over.
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  dawdle();
  uint32_t over;
#ifdef POLYCONV_BOUNDED_WAITS
  uint64_t tries = 0;
#endif
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}"
        : "=r"(over)
        : "r"(barrier), "r"(parity)
        : "memory");
#ifdef POLYCONV_BOUNDED_WAITS
    if (++tries > 1000000) __trap(); // a build that must end: for finding deadlocks
#endif
  } while (over == 0);
  dawdle();
}

// Whether that phase has ended: what the first lane of the warp sees.
__device__ inline bool barrier_over(uint32_t barrier, uint32_t parity) {
  uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return __shfl_sync(~0u, over, 0) != 0;
}

// Waits for `threads` threads of the block, which name the same one of 16 barriers; 0 is __syncthreads'.
__device__ inline void meet(int barrier, int threads) {
  dawdle();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
  dawdle();
}

// ---------------------------------------------------------------- warpgroups

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

// Operand lists of the products: 8, then 32 accumulators, and their places in the instruction's text.
#define POLYCONV_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define POLYCONV_R8(d, i)                                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define POLYCONV_R16(d, i) POLYCONV_R8(d, i), POLYCONV_R8(d, i + 8)
#define POLYCONV_R32(d, i) POLYCONV_R16(d, i), POLYCONV_R16(d, i + 16)
#define POLYCONV_T8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define POLYCONV_T16 POLYCONV_T8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define POLYCONV_T32 POLYCONV_T16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define POLYCONV_T40 POLYCONV_T32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define POLYCONV_T48 POLYCONV_T40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define POLYCONV_T64 POLYCONV_T48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define POLYCONV_T80 POLYCONV_T64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define POLYCONV_T96 POLYCONV_T80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define POLYCONV_T112 POLYCONV_T96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define POLYCONV_T116 \
  POLYCONV_T96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115"
#define POLYCONV_T128                                                                                                \
  POLYCONV_T96                                                                                                       \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118," \
  "%119,%120,%121,%122,%123,%124,%125,%126,%127"
// One instruction: 64 rows by N columns; `a`, `b`, `p` are the places of the descriptors and of `accumulate`.
#define POLYCONV_PRODUCT(N, depth, types, transposes, text, a_at, b_at, p_at, ...)                          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" p_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N depth \
               ".f32" types " {" text "}, %" a_at ", %" b_at ", p, 1, 1" transposes ";\n}"                  \
               : __VA_ARGS__                                                                                \
               : "l"(a), "l"(b), "r"(accumulate))
#define POLYCONV_PRODUCTS(depth, types, transposes)                                                         \
  if constexpr (N == 16)                                                                                    \
    POLYCONV_PRODUCT(16, depth, types, transposes, POLYCONV_T8, "8", "9", "10", POLYCONV_R8(d, 0));         \
  else if constexpr (N == 32)                                                                               \
    POLYCONV_PRODUCT(32, depth, types, transposes, POLYCONV_T16, "16", "17", "18", POLYCONV_R16(d, 0));     \
  else if constexpr (N == 80)                                                                               \
    POLYCONV_PRODUCT(80, depth, types, transposes, POLYCONV_T40, "40", "41", "42", POLYCONV_R32(d, 0),      \
                     POLYCONV_R8(d, 32));                                                                   \
  else if constexpr (N == 96)                                                                               \
    POLYCONV_PRODUCT(96, depth, types, transposes, POLYCONV_T48, "48", "49", "50", POLYCONV_R32(d, 0),      \
                     POLYCONV_R16(d, 32));                                                                  \
  else if constexpr (N == 64)                                                                               \
    POLYCONV_PRODUCT(64, depth, types, transposes, POLYCONV_T32, "32", "33", "34", POLYCONV_R32(d, 0));     \
  else if constexpr (N == 128)                                                                              \
    POLYCONV_PRODUCT(128, depth, types, transposes, POLYCONV_T64, "64", "65", "66", POLYCONV_R32(d, 0),     \
                     POLYCONV_R32(d, 32));                                                                  \
  else if constexpr (N == 160)                                                                              \
    POLYCONV_PRODUCT(160, depth, types, transposes, POLYCONV_T80, "80", "81", "82", POLYCONV_R32(d, 0),     \
                     POLYCONV_R32(d, 32), POLYCONV_R16(d, 64));                                             \
  else if constexpr (N == 192)                                                                              \
    POLYCONV_PRODUCT(192, depth, types, transposes, POLYCONV_T96, "96", "97", "98", POLYCONV_R32(d, 0),     \
                     POLYCONV_R32(d, 32), POLYCONV_R32(d, 64));                                             \
  else if constexpr (N == 224)                                                                              \
    POLYCONV_PRODUCT(224, depth, types, transposes, POLYCONV_T112, "112", "113", "114", POLYCONV_R32(d, 0), \
                     POLYCONV_R32(d, 32), POLYCONV_R32(d, 64), POLYCONV_R16(d, 96));                        \
  else if constexpr (N == 232)                                                                              \
    POLYCONV_PRODUCT(232, depth, types, transposes, POLYCONV_T116, "116", "117", "118", POLYCONV_R32(d, 0), \
                     POLYCONV_R32(d, 32), POLYCONV_R32(d, 64), POLYCONV_R16(d, 96), POLYCONV_R4(d, 112));   \
  else                                                                                                      \
    POLYCONV_PRODUCT(256, depth, types, transposes, POLYCONV_T128, "128", "129", "130", POLYCONV_R32(d, 0), \
                     POLYCONV_R32(d, 32), POLYCONV_R32(d, 64), POLYCONV_R32(d, 96))

// Starts d = a b^T (+ d where `accumulate`): 64 rows by N columns over 32 bytes of depth, by four warps. Thread t of
// the warpgroup has of rows 16 (t / 32) + t % 32 / 4 (+ 8) the columns 8 j + t % 4 * 2 (+ 1): d[4 j], d[4 j + 1], and
// of the lower row d[4 j + 2], d[4 j + 3]. Columns: both factors lie along their rows, not along the depth (16 bits
// only).
template <class T, int N, bool Columns = false>
__device__ inline void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N == 16 || N == 32 || N == 64 || N == 80 || N == 96 || N == 128 || N == 160 || N == 192 || N == 224 ||
                    N == 232 || N == 256,
                "no instruction written out for this width");
  if constexpr (std::is_same_v<T, __half>) {
    if constexpr (Columns) {
      POLYCONV_PRODUCTS("k16", ".f16.f16", ", 1, 1");
    } else {
      POLYCONV_PRODUCTS("k16", ".f16.f16", ", 0, 0");
    }
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if constexpr (Columns) {
      POLYCONV_PRODUCTS("k16", ".bf16.bf16", ", 1, 1");
    } else {
      POLYCONV_PRODUCTS("k16", ".bf16.bf16", ", 0, 0");
    }
  } else {
    POLYCONV_PRODUCTS("k8", ".tf32.tf32", "");
  }
}

// Likewise with a from registers. bf16, 16 of depth: a[0] has of the upper row the pair of columns t % 4 * 2, a[1] of
// the lower row, a[2] and a[3] of both the pair 8 columns on. TF32, 8 of depth: column t % 4 in place of pairs, and 4
// on. Those registers are read until the products are done.
#define POLYCONV_HELD_PRODUCT(N, depth, types, transposes, text, a_at, b_at, p_at, ...)                     \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" p_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N depth \
               ".f32" types " {" text "}, {" a_at "}, %" b_at ", p, 1, 1" transposes ";\n}"                 \
               : __VA_ARGS__                                                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
#define POLYCONV_HELD_PRODUCTS(depth, types, transposes)                                                     \
  if constexpr (N == 64)                                                                                     \
    POLYCONV_HELD_PRODUCT(64, depth, types, transposes, POLYCONV_T32, "%32,%33,%34,%35", "36", "37",         \
                          POLYCONV_R32(d, 0));                                                               \
  else if constexpr (N == 128)                                                                               \
    POLYCONV_HELD_PRODUCT(128, depth, types, transposes, POLYCONV_T64, "%64,%65,%66,%67", "68", "69",        \
                          POLYCONV_R32(d, 0), POLYCONV_R32(d, 32));                                          \
  else if constexpr (N == 160)                                                                               \
    POLYCONV_HELD_PRODUCT(160, depth, types, transposes, POLYCONV_T80, "%80,%81,%82,%83", "84", "85",        \
                          POLYCONV_R32(d, 0), POLYCONV_R32(d, 32), POLYCONV_R16(d, 64));                     \
  else                                                                                                       \
    POLYCONV_HELD_PRODUCT(256, depth, types, transposes, POLYCONV_T128, "%128,%129,%130,%131", "132", "133", \
                          POLYCONV_R32(d, 0), POLYCONV_R32(d, 32), POLYCONV_R32(d, 64), POLYCONV_R32(d, 96))
template <class T, int N>
__device__ inline void multiply_held(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  static_assert(N == 64 || N == 128 || N == 160 || N == 256, "no instruction written out for this width");
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    POLYCONV_HELD_PRODUCTS("k16", ".bf16.bf16", ", 0");
  } else {
    POLYCONV_HELD_PRODUCTS("k8", ".tf32.tf32", "");
  }
}

#undef POLYCONV_HELD_PRODUCTS
#undef POLYCONV_HELD_PRODUCT
#undef POLYCONV_PRODUCTS
#undef POLYCONV_PRODUCT
#undef POLYCONV_T128
#undef POLYCONV_T116
#undef POLYCONV_T112
#undef POLYCONV_T96
#undef POLYCONV_T80
#undef POLYCONV_T64
#undef POLYCONV_T48
#undef POLYCONV_T40
#undef POLYCONV_T32
#undef POLYCONV_T16
#undef POLYCONV_T8
#undef POLYCONV_R32
#undef POLYCONV_R16
#undef POLYCONV_R8
#undef POLYCONV_R4

} // namespace polyconv::cuda::ptx
