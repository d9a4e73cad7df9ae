// barrier.cuh - where threads wait for each other and for copies: named barriers of a block (bar.sync), and barriers in
// shared memory that count arrivals and bytes (mbarrier, from 9.0 on). A PTX instruction a function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/stress.cuh"

namespace polyconv::cuda::ptx {

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

} // namespace polyconv::cuda::ptx
