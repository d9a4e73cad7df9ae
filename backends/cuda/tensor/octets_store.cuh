// octets_store.cuh - the warps of cuda-tensor/octets that store: results of several rows leave as runs of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "octets_parts.cuh"

namespace polyconv::cuda::octets {

// A warp lets a run leave, `vector` elements a lane; with 1, two that a word holds, and of the words at both ends what
// belongs to the run.
template <int vector>
__device__ __forceinline__ void store_run(uint16_t *to, uint32_t from, int32_t elements, int32_t lane) {
  constexpr int kAtOnce = 3, kWidth = vector == 1 ? 2 : vector;
  const int32_t before = vector == 1 ? static_cast<int32_t>(beyond_4(to)) / 2 : 0;
  const int32_t places = (elements + before + kWidth - 1) / kWidth;
  to -= before;
  for (int32_t first = lane; first < places; first += kAtOnce * 32) {
    uint32_t v[kAtOnce][2];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint32_t here = from + min(first + i * 32, places - 1) * kWidth * 2;
      if constexpr (vector == 4)
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v[i][0]), "=r"(v[i][1]) : "r"(here) : "memory");
      else
        v[i][0] = ptx::load_word(here);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t place = first + i * 32, element = place * kWidth - before;
      uint16_t *const there = to + place * kWidth;
      if constexpr (vector == 4) {
        if (place < places) *reinterpret_cast<uint2 *>(there) = make_uint2(v[i][0], v[i][1]);
      } else if constexpr (vector == 2) {
        if (place < places) *reinterpret_cast<uint32_t *>(there) = v[i][0];
      } else {
        if (element >= 0 && element + 1 < elements) *reinterpret_cast<uint32_t *>(there) = v[i][0];
        if (element == elements - 1) there[0] = static_cast<uint16_t>(v[i][0]);
        if (element == -1) there[1] = static_cast<uint16_t>(v[i][0] >> 16);
      }
    }
  }
}

template <int rows, int vector>
__device__ __forceinline__ void store_items(const Geometry &g, const Pointers &p, const Shared &s, int32_t warp) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, group = static_cast<int32_t>(blockIdx.x) % g.groups,
                filter = group * g.group, filters = min(g.group, g.filters - filter);
  const uint32_t magic = group + 1 == g.groups ? g.last_magic : g.group_magic;
  Turn turn;
  for (int32_t number = static_cast<int32_t>(blockIdx.x) / g.groups; number < g.items;
       number += static_cast<int32_t>(gridDim.x) / g.groups) {
    const Item item(g, number, rows);
    const int32_t runs = min(kImages, g.images - item.image) * filters;
    for (int32_t row = 0; row < item.rows; row += g.chunk * rows) {
      const int32_t elements = min(g.chunk * rows, item.rows - row) * g.output_w;
      const uint32_t stage = s.stages + turn.stage * g.stage;
      uint16_t *const first = run_of(g, p, item, 0, filter, row);
      ptx::barrier_wait(s.stage_full(turn.stage), turn.phase);
      for (int32_t run = warp; run < runs; run += kStorers) {
        const int32_t image = banded::stretch_of(magic, run), k = run - image * filters;
        store_run<vector>(first + (image * g.y_image + int64_t{k} * g.y_filter),
                          stage + image * g.y_wait_image + k * g.y_wait_filter, elements, lane);
      }
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(s.stage_empty(turn.stage));
      turn.advance(kStages);
    }
  }
}

} // namespace polyconv::cuda::octets
