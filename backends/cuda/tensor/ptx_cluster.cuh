// ptx_cluster.cuh - what blocks of a cluster do with each other's shared memory, a PTX instruction a function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ptx_hopper.cuh"

namespace polyconv::cuda::ptx {

// All threads of all blocks of a cluster arrive, and wait for it. Of what was written before, the others see barriers
// that were made, by their fence; to release all else would be a fence of the whole GPU.
__device__ inline void cluster_arrive() {
  dawdle();
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
// Where what lies at an address in this block's shared memory lies in another block's of its cluster.
__device__ inline uint32_t address_in_cluster(uint32_t address, int32_t block) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
// Four values to another block's shared memory, whose bytes count at a barrier there.
__device__ inline void send_in_cluster(uint32_t to, const float *v, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
               : "memory");
}

} // namespace polyconv::cuda::ptx
