// store.cuh - the warps of cuda-tensor/octets that store: results of several rows leave as runs of these, a lane
// a run, by the TMA. A run waits as far beyond 16 bytes as it begins in memory, and what does not fill 16 bytes at its
// ends the lane stores itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "octets/parts.cuh"

namespace polyconv::cuda::octets {

// `bytes` of fewer than 16 where one end is at a multiple of 16: as 2, 4 and 8, so that each is aligned.
template <bool rising>
__device__ __forceinline__ void store_end(char *to, uint32_t from, int32_t bytes) {
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int32_t size = rising ? 2 << i : 8 >> i;
    if ((bytes & size) == 0) continue;
    if (size == 2) *reinterpret_cast<uint16_t *>(to) = ptx::load_element(from);
    if (size == 4) *reinterpret_cast<uint32_t *>(to) = ptx::load_word(from);
    if (size == 8) *reinterpret_cast<uint2 *>(to) = ptx::load_words(from);
    to += size, from += size;
  }
}

__device__ __forceinline__ void store_one(char *to, uint32_t from, int32_t bytes) {
  const int32_t head = -beyond_16(to) & 15, body = (bytes - head) & ~15;
  if (bytes < 32) {
#pragma unroll 1
    for (int32_t i = 0; i < bytes; i += 2) *reinterpret_cast<uint16_t *>(to + i) = ptx::load_element(from + i);
    return;
  }
  ptx::store_run(to + head, from + head, body);
  store_end<true>(to, from, head);
  store_end<false>(to + head + body, from + head + body, bytes - head - body);
}

template <int rows>
__device__ __forceinline__ void store_items(const Geometry &g, const Pointers &p, const Shared &s, int32_t thread) {
  const int32_t group = static_cast<int32_t>(blockIdx.x) % g.groups, filter = group * g.group,
                filters = min(g.group, g.filters - filter);
  const uint32_t magic = group + 1 == g.groups ? g.last_magic : g.group_magic;
  // A warp's lanes begin one after the other: all warps share the runs.
  const int32_t first = thread % 32 * kStorers + thread / 32;
  Turn turn;
  for (Share share(g); share.there();) {
    const Item item = share.take(g, rows);
    const int32_t runs = images_of(g, item) * filters;
    for (int32_t row = 0; row < item.rows; row += g.chunk * rows) {
      const int32_t bytes = min(g.chunk * rows, item.rows - row) * g.output_w * 2;
      ptx::barrier_wait(s.stage_full(turn.stage), turn.phase);
      ptx::fence_for_tma();
      for (int32_t run = first; run < runs; run += kStorers * 32) {
        const int32_t image = banded::quotient(magic, run), k = run - image * filters;
        auto *const to = reinterpret_cast<char *>(run_of(g, p, item, image, filter + k, row));
        store_one(to, s.stages + turn.stage * g.stage + place_of(g, image, k) + beyond_16(to), bytes);
      }
      ptx::stores_commit();
      ptx::stores_read<0>();
      ptx::barrier_arrive(s.stage_empty(turn.stage));
      turn.advance(kStages);
    }
  }
}

} // namespace polyconv::cuda::octets
