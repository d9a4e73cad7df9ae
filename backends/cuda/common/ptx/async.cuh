// async.cuh - asynchronous copies from global into shared memory (cp.async); ordinary copies on chips before 80.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda {

// Starts copying the first `there` of Bytes (4, 8 or 16, both sides aligned to them) to an address in shared memory;
// the others are zeros, and not read. On chips from 8.0 on.
template <int Bytes>
__device__ inline void copy_async_part(uint32_t to, const void *from, int there) {
#if __CUDA_ARCH__ >= 800
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(there), "n"(Bytes)
                 : "memory");
#endif
}

// What copy_async below does, to an address in shared memory; on chips from 8.0 on.
template <int Bytes>
__device__ inline void copy_async(uint32_t to, const void *from, bool inside) {
  copy_async_part<Bytes>(to, from, inside ? Bytes : 0);
}
// copy_async_part where `wanted`, without a branch.
template <int Bytes>
__device__ inline void copy_async_if(bool wanted, uint32_t to, const void *from, int there) {
#if __CUDA_ARCH__ >= 800
  if constexpr (Bytes == 16)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p cp.async.cg.shared.global [%0], [%1], 16, %2;\n}" ::"r"(to),
        "l"(from), "r"(there), "r"(static_cast<int>(wanted))
        : "memory");
  else
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p cp.async.ca.shared.global [%0], [%1], %4, %2;\n}" ::"r"(to),
        "l"(from), "r"(there), "r"(static_cast<int>(wanted)), "n"(Bytes)
        : "memory");
#endif
}
// All of Bytes, or where not `inside` zeros: a predicate costs an instruction less than a size.
template <int Bytes>
__device__ inline void copy_async_or_zero(uint32_t to, const void *from, uint32_t inside) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{\n.reg .pred outside;\nsetp.eq.u32 outside, %2, 0;\ncp.async.ca.shared.global [%0], [%1], %3, outside;\n}" ::
          "r"(to),
      "l"(from), "r"(inside), "n"(Bytes)
      : "memory");
#endif
}
// All of Bytes.
template <int Bytes>
__device__ inline void copy_async_all(uint32_t to, const void *from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(Bytes) : "memory");
#endif
}

// Starts copying Bytes (4, 8 or 16, both sides aligned to them), or writes zeros where not `inside`; then `from` is not
// read. Visible to the thread after await_copies, to its block after the __syncthreads that follows.
template <int Bytes>
__device__ inline void copy_async(void *to, const void *from, bool inside) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async moves 4, 8 or 16 bytes");
#if __CUDA_ARCH__ >= 800
  copy_async<Bytes>(static_cast<uint32_t>(__cvta_generic_to_shared(to)), from, inside);
#else
  using Word = std::conditional_t<Bytes == 16, int4, std::conditional_t<Bytes == 8, int2, int> >;
  *static_cast<Word *>(to) = inside ? *static_cast<const Word *>(from) : Word{};
#endif
}

// Likewise, kept in the first cache: of what other blocks of a multiprocessor copy too.
template <int Bytes>
__device__ inline void copy_async_or_zero(void *to, const void *from, uint32_t inside) {
#if __CUDA_ARCH__ >= 800
  copy_async_or_zero<Bytes>(static_cast<uint32_t>(__cvta_generic_to_shared(to)), from, inside);
#else
  copy_async<Bytes>(to, from, inside != 0);
#endif
}

__device__ inline void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Pipelines of more than two stages: the thread's copies since the last commit become a group, and await_groups waits
// for all but the Pending latest groups.
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int Pending>
__device__ inline void await_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

} // namespace polyconv::cuda
