// octets.cuh - persistent blocks take strips of octets, one after the other: warps load input rows into a ring in
// shared memory, turning eight images' pixels into units; two warpgroups multiply, a row of outputs (or two) at a time
// in turn; results wait in shared memory until several rows are there, and leave as runs of these, by the TMA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "octets/load.cuh"
#include "octets/store.cuh"

namespace polyconv::cuda::octets {

template <class T>
__device__ __forceinline__ bool is_nan(uint16_t bits) {
  return (bits & 0x7fff) > (std::is_same_v<T, __half> ? 0x7c00 : 0x7f80);
}
template <class T>
__device__ __forceinline__ uint16_t bits_of(T v) {
  return reinterpret_cast<const uint16_t &>(v);
}

// Where a thread's results belong: of one filter and row, for two images.
struct Target {
  int32_t filter, row, image, column; // in the group, in the item, in the octet
  uint32_t to[2];                     // in shared memory

  // Computed again where they are NaN. A call, so that the products keep their registers.
  template <class T>
  __device__ __noinline__ void repair(const Geometry &g, const Pointers &p, int32_t first_filter, int32_t first_image,
                                      int32_t first_row, int32_t columns) const {
#pragma unroll 1
    for (int32_t i = 0; i < 2 * columns; ++i) {
      const int32_t e = i >= columns, x = i - e * columns, n = first_image + ((image + e) << g.image_shift);
      const uint32_t at = to[e] + x * 2;
      if (n < g.images && is_nan<T>(ptx::load_element(at)))
        ptx::store_element_if(
            true, at,
            bits_of(static_cast<T>(few::exact_result<T>(g, p, n, first_filter + filter, first_row + row, column + x))));
    }
  }
};

template <class T, class F>
class Team {
 public:
  static constexpr int kRowsDown = F::value.rows, kPositions = F::value.positions, kColumns = kPositions * kImages;

  __device__ __forceinline__ Team(const Geometry &g, const Pointers &p, const Shared &s, int32_t team)
      : g_(g), p_(p), s_(s), team_(team) {
    first_filter_ = static_cast<int32_t>(blockIdx.x) % g.groups * g.group;
    const int32_t thread = static_cast<int32_t>(threadIdx.x) % 128, place = thread / 32 * 8 + thread % 32 / 4;
    target_.filter = place / kRowsDown;
    target_.row = place % kRowsDown;
    target_.image = thread % 4 * 2;
    exists_ = target_.filter < min(g.group, g.filters - first_filter_);
    bias_ = p.bias != nullptr && exists_ ? __ldg(p.bias + first_filter_ + target_.filter) : 0.0f;
  }

  __device__ __forceinline__ void multiply_items() {
    int32_t turn = 0; // which team's
    for (Share share(g_); share.there();) {
      const Item item = share.take(g_, kRowsDown);
      for (int32_t step = 0, in_chunk = 0; step < item.steps; ++step) {
        if (turn == team_) multiply_step(item, step, in_chunk);
        turn ^= 1;
        if (++in_chunk == g_.chunk || step + 1 == item.steps) in_chunk = 0, stage_.advance(kStages);
      }
      first_slot_ += item.steps + g_.span - 1;
    }
  }

 private:
  // The team needs no slot before this one any more.
  __device__ __forceinline__ void release(int32_t slot) {
    for (; released_ < slot; ++released_) {
      if (threadIdx.x % 32 == 0) ptx::barrier_arrive(s_.slot_empty(empty_.stage));
      empty_.advance(g_.slots);
    }
  }

  // Until the ring holds what was stored up to slot `end`, and products see it. Those before `first` are not needed.
  __device__ __forceinline__ void wait_for(int32_t end, int32_t first) {
    if (seen_ >= end) return;
    for (; seen_ < end; release(min(++seen_, first))) {
      ptx::barrier_wait(s_.slot_full(full_.stage), full_.phase);
      full_.advance(g_.slots);
    }
    ptx::fence_for_tma();
  }

  __device__ __forceinline__ void multiply_step(const Item &item, int32_t step, int32_t in_chunk) {
    const int32_t first = first_slot_ + step;
    wait_for(first + g_.span, first);
    const int32_t row = step * kRowsDown + target_.row;
    for (int32_t part = 0; part < g_.across; ++part) {
      multiply_part(empty_.stage * kRowsDown, part);
      // While products are under way, for the team's next step: the fence takes as long as half of them.
      if (part + 1 == g_.across && step + 2 < item.steps) wait_for(first + 2 + g_.span, first);
      ptx::products_wait<0>();
      settle();
      if (part + 1 == g_.across) {
        __syncwarp();
        release(min(step + 2 < item.steps ? first + 2 : first + g_.span, seen_));
      }
      if (part == 0) ptx::barrier_wait(s_.stage_empty(stage_.stage), stage_.phase ^ 1);
      if (exists_ && row < item.rows) leave(item, row, in_chunk, part * kPositions * 2);
    }
    const int32_t missing = step + 1 == item.steps ? g_.chunk - 1 - in_chunk : 0;
#pragma unroll 1
    for (int32_t i = 0; i <= missing; ++i) ptx::barrier_arrive(s_.stage_full(stage_.stage));
  }

  // Nothing else defines or uses sums between here and there, or the compiler takes products one by one.
  __device__ __forceinline__ void settle() {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(sums_[i])::"memory");
  }

  // From input row `row` of the ring on.
  __device__ __forceinline__ void multiply_part(int32_t row, int32_t part) {
    const uint32_t row_units = 2 * g_.pairs * g_.pitch, first = (s_.ring >> 4) + part * kPositions * 2;
    uint32_t b = first + row * row_units;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums_[i] = bias_;
    settle();
    multiply_all(b, first, first + g_.slots * kRowsDown * row_units);
    ptx::products_fence(); // or ptxas puts it there, and says so
    ptx::products_commit();
  }

  // From `row` on, up to `end` and on from `first`: a product for each input row and pair of channels.
  __device__ __forceinline__ void multiply_all(uint32_t row, uint32_t first, uint32_t end) {
    Depth at = {static_cast<uint32_t>(g_.blocks * 8) << 16 | s_.weights >> 4, row, first, end};
    int32_t left = g_.depth_rows * g_.pairs;
    for (; left >= kAtOnce; left -= kAtOnce) multiply_some<kAtOnce>(at);
    if (left & 4) multiply_some<4>(at);
    if (left & 2) multiply_some<2>(at);
    if (left & 1) multiply_some<1>(at);
  }
  static constexpr int kAtOnce = 8;

  // Where operands of the next product are; the second's in the ring.
  struct Depth {
    uint32_t a, b, first, end;
  };
  // Without a branch between them, and every address worked out before, products follow each other at once.
  template <int count>
  __device__ __forceinline__ void multiply_some(Depth &at) {
    const uint32_t a_high = 128 >> 4, a_step = g_.blocks * 16;
    const uint32_t b_high = 2, b_low = static_cast<uint32_t>(g_.pitch) << 16, b_step = 2 * g_.pitch;
    uint32_t b[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      b[i] = b_low | at.b;
      asm volatile("" : "+r"(b[i]));
      at.b += b_step;
      if (at.b == at.end) at.b = at.first;
    }
    ptx::products_fence();
#pragma unroll
    for (int i = 0; i < count; ++i)
      ptx::multiply<T, kColumns, false, true>(sums_, descriptor(at.a + i * a_step, a_high), descriptor(b[i], b_high),
                                              1);
    at.a += count * a_step;
  }
  static __device__ __forceinline__ uint64_t descriptor(uint32_t low, uint32_t high) {
    return ptx::joined(low, high);
  }

  // A thread's sums: of each two neighbouring outputs of two images; all of a row of outputs.
  __device__ __forceinline__ void leave(const Item &item, int32_t row, int32_t in_chunk, int32_t column) {
    const int32_t columns = min(g_.output_w - column, 2 * kPositions),
                  first_row = row - in_chunk * kRowsDown - target_.row;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint16_t *const run = run_of(g_, p_, item, target_.image + e, first_filter_ + target_.filter, first_row);
      target_.to[e] = s_.stages + stage_.stage * g_.stage + place_of(g_, target_.image + e, target_.filter) +
                      beyond_16(run) + ((row - first_row) * g_.output_w + column) * 2;
    }
    banded::Seen<T> seen;
    // As many as there are mostly: the compiler knows then which stores there are.
    if (g_.y_words && columns == 2 * kPositions)
      put_words(seen, 2 * kPositions);
    else if (g_.y_words)
      put_words(seen, columns);
    else if (columns == 2 * kPositions - 1)
      put_elements(seen, 2 * kPositions - 1);
    else
      put_elements(seen, columns);
    if (seen.nonfinite()) {
      Target again = target_;
      again.row = row, again.column = column;
      again.template repair<T>(g_, p_, first_filter_, item.image, item.first_row, columns);
    }
  }

  __device__ __forceinline__ void put_words(banded::Seen<T> &seen, int32_t columns) const {
#pragma unroll
    for (int i = 0; i < 2 * kPositions; ++i) {
      const int e = i / kPositions, j = i % kPositions;
      const uint32_t word = ptx::rounded_pair<T>(sums_[4 * j + e], sums_[4 * j + 2 + e], g_.relu != 0);
      seen.look_at(word);
      ptx::store_word_if(2 * j < columns, target_.to[e] + j * 4, word);
    }
  }

  // Rows that begin anywhere: those that begin amid a word are shifted by half of one, and only their ends leave alone.
  __device__ __forceinline__ void put_elements(banded::Seen<T> &seen, int32_t columns) const {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint32_t odd = target_.to[e] >> 1 & 1, to = target_.to[e] - odd * 2, shift = 32 - odd * 16;
      const int32_t end = columns + static_cast<int32_t>(odd);
      uint32_t before = 0;
#pragma unroll
      for (int j = 0; j <= kPositions; ++j) {
        uint32_t word = 0;
        if (j < kPositions) {
          word = ptx::rounded_pair<T>(sums_[4 * j + e], sums_[4 * j + 2 + e], g_.relu != 0);
          seen.look_at(word);
        }
        const uint32_t shifted = __funnelshift_rc(before, word, shift);
        before = word;
        ptx::store_word_if(2 * j + 1 < end && (j > 0 || !odd), to + j * 4, shifted);
        if (j == 0) ptx::store_element_if(odd != 0, to + 2, static_cast<uint16_t>(shifted >> 16));
        ptx::store_element_if(2 * j + 1 == end && (j > 0 || !odd), to + j * 4, static_cast<uint16_t>(shifted));
      }
    }
  }

  const Geometry &g_;
  const Pointers &p_;
  const Shared &s_;
  const int32_t team_;
  float sums_[kColumns / 2];
  Target target_;
  bool exists_;
  float bias_;
  int32_t first_filter_, first_slot_ = 0, seen_ = 0, released_ = 0;
  Turn full_, empty_, stage_;
};

template <class T, class F>
__global__ void __launch_bounds__(kThreads, 1)
    octets(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  extern __shared__ __align__(128) char memory[];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const Shared s(g, memory);
  if (thread == 0) {
    for (int32_t i = 0; i < kMostSlots; ++i) {
      ptx::barrier_init(s.slot_full(i), kLoaders);
      ptx::barrier_init(s.slot_empty(i), kTeams * 4);
    }
    for (int32_t i = 0; i < kStages; ++i) {
      ptx::barrier_init(s.stage_full(i), g.chunk * 128);
      ptx::barrier_init(s.stage_empty(i), kStorers * 32);
    }
    ptx::barrier_init_fence();
  }
  const int32_t units = g.depth_rows * g.pairs * g.blocks * 16, group = static_cast<int32_t>(blockIdx.x) % g.groups;
#pragma unroll 4
  for (int32_t i = thread; i < units; i += kThreads)
    reinterpret_cast<uint4 *>(memory + kBarrierBytes)[i] = __ldg(p.weights + group * units + i);
  // What no loading warp writes, padding, is zero from here on.
  for (int32_t i = thread; i < g.slots * g.slot_units; i += kThreads)
    reinterpret_cast<uint4 *>(memory + kBarrierBytes)[units + i] = uint4{};
  ptx::fence_for_tma();
  __syncthreads();
  const int32_t warp = __shfl_sync(~0u, thread / 32, 0);
  constexpr int kDown = F::value.rows;
  if (warp < kTeams * 4) {
    ptx::take_registers<136>();
    Team<T, F>(g, p, s, warp / 4).multiply_items();
  } else if (warp < kTeams * 4 + kLoaders) {
    ptx::release_registers<72>();
    Loader<kDown>(g, p, s, warp - kTeams * 4).load_items();
  } else {
    ptx::release_registers<64>();
    store_items<kDown>(g, p, s, thread % (kStorers * 32));
  }
}

template <int rows, int positions>
struct FormType {
  static constexpr Form value = {rows, positions};
};

template <class T, int rows, int positions>
constexpr Variant variant() {
  return {{rows, positions}, banded::kTypeOf<T>, octets<T, FormType<rows, positions>>};
}

} // namespace polyconv::cuda::octets
