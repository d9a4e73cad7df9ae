// runs.cuh - how bands of the input come into shared memory for cuda-tensor/banded's sheets, and how results
// leave: as runs that lie in shared memory as they do in memory, by the TMA. Both places are equally far from a
// multiple of 16 bytes, so that only the ends of a run need lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded/parts.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/global.cuh"
#include "common/ptx/hopper.cuh"

namespace polyconv::cuda::banded {

// One of a ring of stages, and the parity of its barriers' phase.
struct Turn {
  int32_t stage = 0, phase = 0;
  __device__ __forceinline__ void advance(int32_t stages) {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

// Barriers of the stages: full where a stage holds what its readers wait for, empty where all have read it.
struct Rings {
  uint32_t first; // in shared memory

  __device__ __forceinline__ uint32_t input_full(int32_t stage) const { return first + stage * 8; }
  __device__ __forceinline__ uint32_t input_empty(int32_t stage) const { return first + (kMostStages + stage) * 8; }
  __device__ __forceinline__ uint32_t output_full(int32_t stage) const { return first + (2 * kMostStages + stage) * 8; }
  __device__ __forceinline__ uint32_t output_empty(int32_t stage) const {
    return first + (3 * kMostStages + stage) * 8;
  }
  // What a block's i-th band is: its image, less than 0 after the last, and its first row. More are remembered than are
  // under way.
  __device__ __forceinline__ uint32_t band(int32_t i) const { return first + (4 * kMostStages + i % 16) * 8; }
};
static_assert((4 * kMostStages + 16) * 8 <= kBarrierBytes, "there is room for barriers and bands");

// A band of an image: what a block loads at once.
struct Band {
  int32_t image, first_row, rows; // output rows

  __device__ __forceinline__ Band(const Geometry &g, int32_t in_image, int32_t from_row)
      : image(in_image), first_row(from_row), rows(min(g.strip, g.output_h - from_row)) {}
  __device__ __forceinline__ Band(const Geometry &g, int32_t number)
      : Band(g, number / g.strips, number % g.strips * g.strip) {}
  __device__ __forceinline__ const uint16_t *input(const Geometry &g, const Pointers &p) const {
    return static_cast<const uint16_t *>(p.x) + image * g.x_image + first_row * g.x_row;
  }
  __device__ __forceinline__ char *output(const Geometry &g, const Pointers &p, int32_t filter, int32_t size) const {
    return static_cast<char *>(p.y) + (image * g.y_image + filter * g.y_filter + first_row * g.y_row) * size;
  }
};

__device__ __forceinline__ int32_t beyond_16(const void *p) {
  return static_cast<int32_t>(reinterpret_cast<uintptr_t>(p) % 16);
}
// Where in its stage a band's input begins, in elements; where a chunk's results do, in bytes.
__device__ __forceinline__ int32_t input_skew(const Geometry &g, const Pointers &p, const Band &b) {
  return g.runs > 0 ? beyond_16(b.input(g, p)) / 2 : 0;
}
__device__ __forceinline__ int32_t output_skew(const Geometry &g, const Pointers &p, const Band &b, int32_t filter,
                                               int32_t size) {
  return g.runs_leave ? beyond_16(b.output(g, p, filter, size)) : 0;
}

// A run's ends are what does not fill 16 bytes.
struct Ends {
  int32_t head, body, tail; // elements
  template <class E>
  __device__ __forceinline__ Ends(const E *memory, int32_t elements) {
    constexpr int32_t kUnit = 16 / sizeof(E);
    head = min(elements, (kUnit - beyond_16(memory) / static_cast<int32_t>(sizeof(E))) % kUnit);
    body = (elements - head) / kUnit * kUnit;
    tail = elements - head - body;
  }
};

// By one thread: ends are rare, and runs many.
template <class E>
__device__ __forceinline__ void copy_ends(E *to, const E *from, const Ends &ends) {
  const int32_t behind = ends.head + ends.body;
#pragma unroll 1
  for (int32_t i = 0; i < ends.head; ++i) to[i] = from[i];
#pragma unroll 1
  for (int32_t i = behind; i < behind + ends.tail; ++i) to[i] = from[i];
}

// A warp begins to load a band's runs, planes of channels or all as one, and arrives at the barrier with all lanes:
// what fills 16 bytes comes by the TMA, the words at both ends by copies that no lane waits for. Eight lanes a run, the
// first for its body, three for each end.
__device__ inline void load_runs(const Geometry &g, const uint16_t *from, int32_t rows, uint16_t *to, uint32_t barrier,
                                 int32_t lane) {
  const int32_t elements = g.runs == 1 && g.channels > 1 ? g.channels * g.plane : rows * g.pitch;
  const int32_t run = lane / 8, part = lane % 8; // no more runs than four planes
  int32_t bytes = 0;
  if (run < g.runs) {
    from += run * g.x_plane, to += run * g.plane;
    const Ends ends(from, elements);
    const int32_t behind = ends.head + ends.body, word = part < 4 ? (part - 1) * 2 : behind + (part - 4) * 2;
    if (part == 0)
      bytes = ends.body * 2;
    else if (word < (part < 4 ? ends.head : behind + ends.tail))
      copy_async<4>(to + word, from + word, true);
    if (bytes > 0) ptx::load_run(ptx::shared_address(to + ends.head), from + ends.head, bytes, barrier);
  }
  bytes = static_cast<int32_t>(__reduce_add_sync(~0u, static_cast<uint32_t>(bytes)));
  if (lane == 0)
    ptx::barrier_expect(barrier, bytes);
  else
    ptx::barrier_arrive_copied(barrier);
}

// n / what the magic number is of: exact up to 58 thousand by as much, which is more than a band has elements.
__device__ __forceinline__ int32_t quotient(uint32_t magic, int32_t n) {
  return magic == 0 ? n : static_cast<int32_t>(__umulhi(static_cast<uint32_t>(n), magic));
}

// Warps copy rows of every alignment, with padding around them. Nothing branches for what lies outside: loads follow
// each other at once. The geometry comes from memory, once: a call has it by reference, and loops would wait for each
// number.
__device__ inline void load_elements(const Geometry &g, const Pointers &p, const Band &b, int32_t rows, uint16_t *to,
                                     int32_t thread, int32_t threads) {
  constexpr int kAtOnce = 8;
  const uint16_t *from = static_cast<const uint16_t *>(p.x) + b.image * g.x_image;
  const int32_t channels = g.channels, plane = g.plane, pitch = g.pitch, x_plane = g.x_plane, x_row = g.x_row,
                top = b.first_row - g.pad_h, pad_w = g.pad_w, elements = rows * pitch, slope = x_row - pitch;
  const auto height = static_cast<uint32_t>(g.input_h), width = static_cast<uint32_t>(g.input_row),
             magic = g.pitch_magic;
  from += top * x_row - pad_w;
  for (int32_t c = 0; c < channels; ++c, from += x_plane, to += plane)
#pragma unroll 1
    for (int32_t first = thread; first < elements; first += kAtOnce * threads) {
      uint32_t loaded[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        // Else each has numbers of its own that registers keep, and few loads are under way.
        int32_t at = first + i * threads;
        asm volatile("" : "+r"(at));
        const int32_t row = quotient(magic, at);
        ptx::load_global_half_if(
            static_cast<uint32_t>(row + top) < height && static_cast<uint32_t>(at - row * pitch - pad_w) < width,
            loaded[i], from + (row * slope + at));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i * threads < elements) to[first + i * threads] = static_cast<uint16_t>(loaded[i]);
    }
}

// A warp lets a chunk's results leave. E is as wide as a result.
template <class E>
__device__ inline void store_chunk(const Geometry &g, const Pointers &p, const Band &b, int32_t filter, int32_t filters,
                                   const char *stage, int32_t lane) {
  const E *from = reinterpret_cast<const E *>(stage + output_skew(g, p, b, filter, sizeof(E)));
  E *to = reinterpret_cast<E *>(b.output(g, p, filter, sizeof(E)));
  const int32_t runs = g.whole ? 1 : filters, elements = g.whole ? filters * g.waiting : b.rows * g.output_w;
  if (g.runs_leave) {
    for (int32_t run = lane; run < runs; run += 32) {
      E *const there = to + run * g.y_filter;
      const E *const here = from + run * g.waiting;
      const Ends ends(there, elements);
      copy_ends(there, here, ends);
      if (ends.body > 0)
        ptx::store_run(there + ends.head, ptx::shared_address(here + ends.head),
                       ends.body * static_cast<int>(sizeof(E)));
    }
  } else {
    for (int32_t run = 0; run < runs; ++run)
#pragma unroll 1
      for (int32_t i = lane; i < elements; i += 32) to[run * g.y_filter + i] = from[run * g.waiting + i];
  }
}

// The warp that stores what the block computes, of groups from `group` on. next(i, turn) is the block's i-th band, of
// image -1 after the last. A stage is free when its results have been read, which is looked at when the next is on its
// way.
template <class E, class Next>
__device__ inline void store_chunks(const Geometry &g, const Pointers &p, const Rings &rings, const char *outputs,
                                    int32_t group, const Next &next) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  Turn turn, before;
  for (int32_t i = 0;; ++i) {
    const Band band = next(i, turn);
    if (band.image < 0) break;
    for (int32_t part = 0; part < g.chunks; ++part) {
      const int32_t filter = (group + part * g.chunk) * g.group;
      ptx::barrier_wait(rings.output_full(turn.stage), turn.phase);
      ptx::fence_for_tma(); // for all that have arrived
      store_chunk<E>(g, p, band, filter, min(g.chunk * g.group, g.filters - filter),
                     outputs + turn.stage * g.output_stage, lane);
      ptx::stores_commit();
      ptx::stores_read<1>();
      __syncwarp();
      if (lane == 0 && (i > 0 || part > 0)) ptx::barrier_arrive(rings.output_empty(before.stage));
      before = turn;
      turn.advance(g.output_stages);
    }
  }
  ptx::stores_read<0>();
}

} // namespace polyconv::cuda::banded
