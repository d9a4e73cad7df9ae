// octets_store.cuh - the warps of cuda-tensor/octets that store: results of several rows leave as runs of these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "octets_parts.cuh"

namespace polyconv::cuda::octets {

// A warp lets a chunk's runs leave, four at once, for one alone would wait for itself: `vector` elements a lane; with
// 1, two that a word holds, and of the words at both ends what belongs to the run.
template <int vector>
class RunStore {
 public:
  __device__ __forceinline__ RunStore(const Geometry &g, int32_t elements, int32_t filters, uint32_t magic)
      : g_(g), elements_(elements), filters_(filters), magic_(magic) {}

  // From run `run` on, those of `runs` that exist; the first of them all goes from `from` to `to`.
  __device__ __forceinline__ void store(uint16_t *to, uint32_t from, int32_t run, int32_t runs, int32_t lane) const {
    constexpr int kWidth = vector == 1 ? 2 : vector;
    const int32_t places = vector == 1 ? elements_ / 2 + 1 : elements_ / kWidth; // at most
    uint16_t *there[kAtOnce];
    uint32_t here[kAtOnce];
    int32_t element[kAtOnce]; // the lane's
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t mine = min(run + i, runs - 1), image = banded::stretch_of(magic_, mine),
                    k = mine - image * filters_;
      there[i] = to + (image * g_.y_image + int64_t{k} * g_.y_filter);
      here[i] = from + image * g_.y_wait_image + k * g_.y_wait_filter + lane * (kWidth * 2);
      element[i] = lane * kWidth;
      if (vector == 1) element[i] -= static_cast<int32_t>(beyond_4(there[i])) / 2;
      there[i] += element[i];
      if (run + i >= runs) element[i] = elements_; // beyond its end
    }
    for (int32_t place = lane; place < places; place += 32) {
      uint2 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        v[i] = vector == 4 ? load_pair(here[i]) : make_uint2(ptx::load_word(here[i]), 0);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        put(there[i], element[i], v[i]);
        here[i] += 64 * kWidth, there[i] += 32 * kWidth, element[i] += 32 * kWidth;
      }
    }
  }

  static constexpr int kAtOnce = 4;

 private:
  static __device__ __forceinline__ uint2 load_pair(uint32_t from) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
    return v;
  }
  __device__ __forceinline__ void put(uint16_t *to, int32_t element, uint2 v) const {
    if constexpr (vector == 4) {
      if (element < elements_) *reinterpret_cast<uint2 *>(to) = v;
    } else if constexpr (vector == 2) {
      if (element < elements_) *reinterpret_cast<uint32_t *>(to) = v.x;
    } else {
      if (element >= 0 && element + 1 < elements_) *reinterpret_cast<uint32_t *>(to) = v.x;
      if (element + 1 == elements_) to[0] = static_cast<uint16_t>(v.x);
      if (element == -1) to[1] = static_cast<uint16_t>(v.x >> 16);
    }
  }

  const Geometry &g_;
  const int32_t elements_, filters_;
  const uint32_t magic_;
};

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
      const RunStore<vector> chunk(g, min(g.chunk * rows, item.rows - row) * g.output_w, filters, magic);
      uint16_t *const first = run_of(g, p, item, 0, filter, row);
      ptx::barrier_wait(s.stage_full(turn.stage), turn.phase);
      for (int32_t run = warp * chunk.kAtOnce; run < runs; run += kStorers * chunk.kAtOnce)
        chunk.store(first, s.stages + turn.stage * g.stage, run, runs, lane);
      ptx::barrier_arrive(s.stage_empty(turn.stage));
      turn.advance(kStages);
    }
  }
}

} // namespace polyconv::cuda::octets
