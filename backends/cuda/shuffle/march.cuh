// march.cuh - the kernel of cuda-shuffle as a template, with an instance for each way that results take (shape.hpp).
//
// A lane owns 4 or 8 columns of one input plane and marches down its rows. Each row is read once and goes into the sums
// of all output rows that see it; the columns left and right of the lane's own come from its neighbours' registers.
// `width` lanes (2 to 32) make a tile, so that small planes share a warp; the tile's first and last lane load the
// columns beyond it themselves. All tiles of a warp have the same output channel: its weights are the same in every
// lane, and ptxas keeps them in uniform registers, where they are operands of an FFMA and cost no lane's register.
// (Rows in registers and columns by shuffle: Chen et al., "A versatile software systolic execution model for GPU
// memory-bound kernels", SC 2019.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "common/device/launch.hpp"
#include "common/instance.hpp"
#include "common/ptx/grid.cuh"
#include "reader.cuh"
#include "results.cuh"

namespace polyconv::cuda::shuffle {

template <class T>
using Weight = std::conditional_t<std::is_integral_v<T>, float, T>; // images of integers have weights of f32

// Blocks on a multiprocessor that registers must leave room for: as many as fit without spilling. Short of registers,
// ptxas keeps the weights in uniform ones, so this costs no other instruction: 7x7 with 4 blocks took 169 us, with 3
// and the weights in the lanes' registers 240.
template <int n, int step, class T>
__host__ __device__ constexpr int resident_blocks(Results results) {
  if (n > kSmall) return 2;
  const bool few_sums = columns_of(n, sizeof(T)) == 4;
  if (results == Results::kAll && few_sums) return n == 4 ? 4 : n <= 5 ? 5 : 3;
  if (results == Results::kAll) return n <= 3 ? 4 : n <= 5 ? 3 : 2;
  if (few_sums) return n <= 3 ? 8 : 13 - n - step;
  const int blocks = n <= 3 ? 7 : n <= 5 ? 10 - n : 4;
  const bool unpacks = (sizeof(T) == 1 && step == 2) || (std::is_same_v<T, __nv_bfloat16> && n == 3);
  return unpacks ? blocks - 1 : blocks;
}

// One filter of n x n: in registers, uniform ones where ptxas finds room, or in shared memory in fours, each loaded for
// the 4 products with every sum of a row.
template <int n>
class Taps {
 public:
  static constexpr bool kHeld = n <= kSmall;
  static constexpr int kFours = (n + 3) / 4; // of a row
  using Shared = float4[kHeld ? 1 : kThreads / 32][kHeld ? 1 : n * kFours];

  template <class W>
  __device__ __forceinline__ Taps(const View<int32_t> &view, const W *weights, int32_t k, Shared &shared)
      : fours_(shared[kHeld ? 0 : threadIdx.x / 32]) {
    const W *const first = weights + view.at(k, 0, 0, 0, 0);
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < n * n; ++i) held_[i] = value(first[i / n * view.stride[3] + i % n * view.stride[4]]);
    } else {
      float *const to = &fours_[0].x;
      for (int32_t i = threadIdx.x % 32; i < n * kFours * 4; i += 32) {
        const int32_t r = i / (kFours * 4), s = i % (kFours * 4);
        to[i] = s < n ? value(first[r * view.stride[3] + s * view.stride[4]]) : 0.0f;
      }
      __syncwarp();
    }
  }

  __device__ __forceinline__ float held(int r, int s) const {
    return held_[r * n + s];
  }
  // `zero` is 0, and the compiler must not know: it would move the loads of all rows out of the loop.
  __device__ __forceinline__ float4 four(int r, int i, int32_t zero) const {
    return fours_[r * kFours + i + zero];
  }

 private:
  float held_[kHeld ? n * n : 1];
  float4 *const fours_;
};

// Adds a row that the filter's rows phase, phase + step, ... see. sum[0] is the oldest output row; where a new one
// begins (phase 0) all move on by one, which costs nothing: sums are read from the next and written to their own.
template <int n, int step, int live, int outputs, int window>
__device__ __forceinline__ void accumulate(float (&sum)[live][outputs], const float (&v)[window], const Taps<n> &taps,
                                           int phase) {
  int32_t zero = 0;
  if constexpr (!Taps<n>::kHeld) asm volatile("" : "+r"(zero));
#pragma unroll
  for (int j = 0; j < live; ++j) {
    const int r = phase + step * (live - 1 - j);
    if (r >= n) continue;
    float4 four = {};
#pragma unroll
    for (int s = 0; s < n; ++s) {
      float w;
      if constexpr (Taps<n>::kHeld) {
        w = taps.held(r, s);
      } else {
        if (s % 4 == 0) four = taps.four(r, s / 4, zero);
        w = s % 4 == 0 ? four.x : s % 4 == 1 ? four.y : s % 4 == 2 ? four.z : four.w;
      }
#pragma unroll
      for (int i = 0; i < outputs; ++i) {
        const bool moves = s == 0 && phase == 0;
        const float before = !moves ? sum[j][i] : j + 1 < live ? sum[j + 1 < live ? j + 1 : 0][i] : 0.0f;
        sum[j][i] = fmaf(v[i * step + s], w, before);
      }
    }
  }
}

// Whose outputs this lane computes. The shuffle tells the compiler that a warp's channel is the same in all lanes.
template <int outputs>
__device__ __forceinline__ Lane own_lane(const Conv<int32_t> &p, const March &m) {
  Lane lane;
  const int32_t warp = __shfl_sync(0xffffffffu, static_cast<int32_t>((blockIdx.x * kThreads + threadIdx.x) / 32), 0);
  const int32_t in_warp = threadIdx.x % 32, tiles = 32 / m.width;
  lane.k = warp % p.output.size[1];
  const int32_t own = warp / p.output.size[1] * tiles + in_warp / m.width;
  lane.active = own < m.tiles;
  const int32_t tile = lane.active ? own : 0;
  const int32_t tile_w = tile % m.tiles_w, strip = tile / m.tiles_w % m.strips;
  lane.image = tile / m.tiles_w / m.strips;
  lane.index = in_warp % m.width;
  lane.result_h = strip * m.results_h;
  lane.result_w = tile_w * m.results_w;
  lane.first_h = (lane.result_h * p.pool.stride[1] - p.pool.pad[1]) * m.step_h;
  lane.first_w = (lane.result_w * p.pool.stride[2] - p.pool.pad[2]) * m.step_w + lane.index * outputs;
  return lane;
}

// Marches down a strip: row by row from the reader into the sums, and from there to `sink`.
template <int n, int step, class T, class Reader, class Sink>
__device__ __forceinline__ void march_strip(const Conv<int32_t> &p, const March &m, const Taps<n> &taps, Reader &reader,
                                            Sink &sink) {
  using C = Columns<n, step, T>;
  constexpr int kLive = (n + step - 1) / step, kOutputs = C::kOwn / step, kAhead = Reader::kAhead;
  static_assert(kAhead % step == 0, "each row of the ring has one phase");
  Row<n, step, T> ring[kAhead];
#pragma unroll
  for (int a = 0; a < kAhead; ++a) reader.load(p, m, ring[a]);
  float sum[kLive][kOutputs] = {};
#pragma unroll 1
  for (int32_t done = 1 - kLive; done < m.rows; done += kAhead / step) {
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      float v[C::kWindow];
      reader.spread(p, m, ring[a], v);
      reader.load(p, m, ring[a]);
      accumulate<n, step>(sum, v, taps, a % step);
      if (a % step == (n - 1) % step) sink.row(p, done + a / step, sum[0]);
    }
    sink.finish_to(p, m, done + kAhead / step - 1);
  }
}

template <int n, int step, class T, Results results>
__global__ void __launch_bounds__(kThreads, (resident_blocks<n, step, T>(results)))
    march(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ March m, const T *x,
          const Weight<T> *weights, void *y) {
  ptx::await_previous();
  using C = Columns<n, step, T>;
  using Elements = ElementReader<n, step, T>;
  using Vectors = VectorReader<n, step, T>;
  constexpr int kOutputs = C::kOwn / step;
  extern __shared__ float4 staging[];
  __shared__ typename Elements::Offsets offsets;
  __shared__ typename Taps<n>::Shared shared_taps;

  const Lane lane = own_lane<kOutputs>(p, m);
  const Taps<n> taps(p.weights, weights, lane.k, shared_taps);
  Source<T> source;
  source.plane = x + p.input.at(lane.image, lane.k / m.per_input, 0, 0, 0);
  source.first = lane.index == 0;
  source.last = lane.index == m.width - 1;
  source.left = lane.first_w * step - p.pad[2] + C::kLeft;
  source.edge_left = source.first ? source.left - C::kEdge : source.left + C::kOwn;
  source.top = lane.first_h * step - p.pad[1];
  source.end = source.top + (m.rows - 1) * step + n;

  const auto to = [&](auto &sink) {
    if constexpr (n <= kSmall) { // larger filters multiply so much that loads do not matter
      if (Vectors::reads(p, m, source)) {
        Vectors reader(p, m, source);
        return march_strip<n, step, T>(p, m, taps, reader, sink);
      }
    }
    Elements reader(p, m, source, offsets);
    march_strip<n, step, T>(p, m, taps, reader, sink);
  };
  if constexpr (results == Results::kRows) {
    DirectResults<T, kOutputs> sink(p, m, lane, y);
    to(sink);
  } else {
    using Direct = std::conditional_t<(n > kSmall), DirectResults<T, kOutputs>, PairResults<T, kOutputs>>;
    using Staged = StagedResults<kOutputs>;
    EitherResults<Direct, Staged> sink(p, m, lane, y, *reinterpret_cast<typename Staged::Rows *>(staging));
    to(sink);
  }
}

template <int n, int step, class T, Results results>
void launch_march(const Conv<int32_t> &p, const March &m, const void *x, const void *weights, void *y,
                  cudaStream_t stream) {
  constexpr int kOutputs = columns_of(n, sizeof(T)) / step;
  const size_t staging = m.direct ? 0 : sizeof(typename StagedResults<kOutputs>::Rows);
  launch_waiting(march<n, step, T, results>, blocks_for(m.warps * int64_t{32}, kThreads), kThreads, staging, stream, p,
                 m, static_cast<const T *>(x), static_cast<const Weight<T> *>(weights), y);
}

template <int n, int step, Results results>
LaunchFunction by_type(int32_t type) {
  switch (type) {
    case POLYCONV_F32: return launch_march<n, step, float, results>;
    case POLYCONV_F16: return launch_march<n, step, __half, results>;
    case POLYCONV_BF16: return launch_march<n, step, __nv_bfloat16, results>;
    case POLYCONV_U8: return launch_march<n, step, uint8_t, results>;
    case POLYCONV_U16: return launch_march<n, step, uint16_t, results>;
    default: return nullptr;
  }
}

// Filters of Least x Least and larger.
template <int Least, int step, Results results, int... more>
LaunchFunction by_size(int64_t n, int32_t type, std::integer_sequence<int, more...>) {
  LaunchFunction found = nullptr;
  ((n == Least + more ? static_cast<void>(found = by_type<Least + more, step, results>(type)) : void()), ...);
  return found;
}

template <Instances way>
LaunchFunction find(int64_t n, int32_t type) {
  constexpr int kStep = way == kStrided ? 2 : 1;
  constexpr Results kResults = way == kStaged ? Results::kAll : Results::kRows;
  if constexpr (way == kLarge)
    return by_size<kSmall + 1, 1, Results::kAll>(n, type, std::make_integer_sequence<int, kLargest - kSmall>());
  else
    return by_size<1, kStep, kResults>(n, type, std::make_integer_sequence<int, kSmall>());
}

} // namespace polyconv::cuda::shuffle

#define POLYCONV_INSTANCE(way) template shuffle::LaunchFunction shuffle::find<shuffle::way>(int64_t, int32_t);
