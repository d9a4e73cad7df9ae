// cluster.cuh - what blocks of a cluster do with each other's shared memory, a PTX instruction a function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h> // CUtensorMap

#include <cstdint>

#include "common/stress.cuh"

namespace polyconv::cuda::ptx {

// All threads of all blocks of a cluster arrive, and wait for it. Of what was written before, the others see barriers
// that were made, by their fence; to release all else would be a fence of the whole GPU.
__device__ inline void cluster_arrive() {
  dawdle();
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
// Likewise, and what this thread did before is done for those that wait.
__device__ inline void cluster_arrive_released() {
  dawdle();
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  dawdle();
}
// Where what lies at an address in this block's shared memory lies in another block's of its cluster.
__device__ inline uint32_t address_in_cluster(uint32_t address, int32_t block) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
// Four values from another block's shared memory, or from its own, which address_in_cluster has found.
__device__ inline float4 load_in_cluster(uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
// Four values to another block's shared memory, whose bytes count at a barrier there.
__device__ inline void send_in_cluster(uint32_t to, const float *v, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
               : "memory");
}
// Arrives at a barrier in another block's shared memory, or in its own, which address_in_cluster has found.
__device__ inline void arrive_in_cluster(uint32_t barrier) {
  dawdle();
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
  dawdle();
}
// A box of a tensor of two or four dimensions from (x, y, z, n) to the same place in the blocks of a cluster that
// `blocks` has bits of; in each, its bytes count at the same barrier.
__device__ inline void load_box_for(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y,
                                    uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}

__device__ inline void load_box_for(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y, int z, int n,
                                    uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(n), "h"(blocks)
      : "memory");
}

} // namespace polyconv::cuda::ptx
