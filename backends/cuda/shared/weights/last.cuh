// last.cuh - the gradient of weights of depthwise layers, channels last. A warp reads neighbouring channels, so that
// every load is a whole line; the lines of a window come from the first cache, where the row before has left them.
//
// Floor: one read of x and dy. What a multiprocessor issues is nearer: of a strip of 4 outputs and a line of 3 taps, 12
// products of each channel, 6 loads and, of 16 bits, 12 conversions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "common/device/launch.hpp"
#include "common/ptx/grid.cuh"
#include "common/values.cuh"
#include "weights/last.hpp"

namespace polyconv::cuda::shared {

// ---------------------------------------------------------------- loads

// Two neighbouring channels; where they are no word, the second may not exist.
template <class T, bool Pairs>
__device__ inline float2 load_channels(const T *from, bool both) {
  if constexpr (!Pairs) {
    return make_float2(value(from[0]), both ? value(from[1]) : 0.0f);
  } else if constexpr (sizeof(T) == 4) {
    return *reinterpret_cast<const float2 *>(from);
  } else {
    const uint32_t word = *reinterpret_cast<const uint32_t *>(from);
    const auto *const halves = reinterpret_cast<const T *>(&word);
    return make_float2(value(halves[0]), value(halves[1]));
  }
}

__device__ inline void add_product(float2 &sum, float2 x, float2 y) {
  sum.x = fmaf(x.x, y.x, sum.x), sum.y = fmaf(x.y, y.y, sum.y);
}

// ---------------------------------------------------------------- where a lane works

// The lane's channels, and the units (parts of rows) of its group: every groups-th of the split.
struct LastLane {
  int32_t channel, first, end, step;
  bool there, both;

  __device__ LastLane(const LastSums &p, int32_t slice, int32_t split) {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    channel = (slice * p.lanes + thread % p.lanes) * 2;
    there = channel < p.channels, both = channel + 1 < p.channels;
    first = static_cast<int32_t>(int64_t{p.units()} * split / p.splits) + thread / p.lanes;
    end = static_cast<int32_t>(int64_t{p.units()} * (split + 1) / p.splits);
    step = kLastThreads / p.lanes;
  }
};

// A unit: its image, and its outputs [begin, end) of row h at depth d.
struct LastUnit {
  int32_t image, d, h, begin, end;

  __device__ LastUnit(const LastSums &p, int32_t unit) {
    const int32_t row = unit / p.segments, plane = row / p.out[1];
    image = plane / p.out[0];
    d = plane - image * p.out[0], h = row - plane * p.out[1];
    begin = (unit - row * p.segments) * p.columns, end = min(begin + p.columns, p.out[2]);
  }
};

// Elements from an image's first to the line of x that line `line` of the window reads; -1 where it is padding.
__device__ inline int32_t line_of(const LastSums &p, const LastUnit &unit, int32_t line) {
  const int32_t plane = line / p.taps[1];
  const int32_t d = unit.d * p.stride[0] - p.pad[0] + plane * p.dilation[0];
  const int32_t h = unit.h * p.stride[1] - p.pad[1] + (line - plane * p.taps[1]) * p.dilation[1];
  const bool inside = d >= 0 && d < p.in[0] && h >= 0 && h < p.in[1];
  return inside ? d * p.x_stride[0] + h * p.x_stride[1] : -1;
}

// ---------------------------------------------------------------- sums of a turn

// Lines of `Taps` neighbouring columns: a strip's inputs are loaded once for all taps of a line.
template <class T, int Taps, int Step, int Lines>
struct ColumnSums {
  static constexpr int kBlocks = Lines * Taps <= 9 ? 3 : 2; // on a multiprocessor, as registers allow
  static constexpr int kCount = Lines * Taps, kInputs = (kStrip - 1) * Step + Taps;
  float2 sums[kCount] = {};

  __device__ void add(const LastSums &p, const LastLane &lane, const LastUnit &unit, int32_t turn) {
    const T *const x = static_cast<const T *>(p.x) + unit.image * p.x_image + lane.channel;
    const T *dy = static_cast<const T *>(p.dy) + unit.image * p.dy_image + unit.d * p.dy_stride[0] +
                  unit.h * p.dy_stride[1] + unit.begin * p.dy_stride[2] + lane.channel;
    const int32_t lines = p.taps[0] * p.taps[1];
    int32_t from[Lines];
#pragma unroll
    for (int i = 0; i < Lines; ++i) from[i] = turn * Lines + i < lines ? line_of(p, unit, turn * Lines + i) : -1;
#pragma unroll 1
    for (int32_t w = unit.begin; w < unit.end; w += kStrip, dy += kStrip * p.dy_stride[2]) {
      float2 y[kStrip];
#pragma unroll
      for (int u = 0; u < kStrip; ++u)
        y[u] = w + u < unit.end ? load_channels<T, true>(dy + u * p.dy_stride[2], true) : float2{};
      const int32_t left = w * Step - p.pad[2];
#pragma unroll
      for (int i = 0; i < Lines; ++i)
        if (from[i] >= 0) add_line(p, x + from[i], left, y, unit.end - w, i * Taps);
    }
  }

 private:
  // Outputs that do not exist meet nothing: their inputs may be infinite.
  __device__ void add_line(const LastSums &p, const T *line, int32_t left, const float2 (&y)[kStrip], int32_t there,
                           int first) {
    float2 x[kInputs];
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const bool inside = static_cast<uint32_t>(left + i) < static_cast<uint32_t>(p.in[2]);
      x[i] = inside ? load_channels<T, true>(line + (left + i) * p.x_stride[2], true) : float2{};
    }
#pragma unroll
    for (int u = 0; u < kStrip; ++u)
      if (u < there)
#pragma unroll
        for (int tap = 0; tap < Taps; ++tap) add_product(sums[first + tap], x[u * Step + tap], y[u]);
  }
};

// Any taps of any window, one by one.
template <class T, bool Pairs>
struct TapSums {
  static constexpr int kBlocks = 2, kCount = kTurnTaps;
  float2 sums[kCount] = {};

  __device__ void add(const LastSums &p, const LastLane &lane, const LastUnit &unit, int32_t turn) {
    const T *const x = static_cast<const T *>(p.x) + unit.image * p.x_image + lane.channel;
    const T *dy = static_cast<const T *>(p.dy) + unit.image * p.dy_image + unit.d * p.dy_stride[0] +
                  unit.h * p.dy_stride[1] + unit.begin * p.dy_stride[2] + lane.channel;
    int32_t from[kCount], shift[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int32_t tap = turn * kCount + i, line = tap / p.taps[2];
      from[i] = tap < p.all_taps() ? line_of(p, unit, line) : -1;
      shift[i] = (tap - line * p.taps[2]) * p.dilation[2] - p.pad[2];
    }
#pragma unroll 1
    for (int32_t w = unit.begin; w < unit.end; ++w, dy += p.dy_stride[2]) {
      const float2 y = load_channels<T, Pairs>(dy, lane.both);
      float2 v[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int32_t at = w * p.stride[2] + shift[i];
        const bool inside = from[i] >= 0 && static_cast<uint32_t>(at) < static_cast<uint32_t>(p.in[2]);
        v[i] = inside ? load_channels<T, Pairs>(x + from[i] + at * p.x_stride[2], lane.both) : float2{};
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) add_product(sums[i], v[i], y);
    }
  }
};

// ---------------------------------------------------------------- the block

// The block's sums as a piece. Groups of lanes within a warp add up first, then warps, both in order.
template <int Count>
__device__ inline void leave_piece(const LastSums &p, float2 (&sums)[Count], const LastLane &lane, int32_t turn,
                                   int32_t split) {
  __shared__ float2 values[kLastWarps][kLastWarps][32]; // taps, warps
  const int32_t in_warp = static_cast<int32_t>(threadIdx.x) % 32, warp = static_cast<int32_t>(threadIdx.x) / 32;
  for (int32_t apart = p.lanes; apart < 32; apart *= 2)
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      sums[i].x += __shfl_xor_sync(~0u, sums[i].x, apart);
      sums[i].y += __shfl_xor_sync(~0u, sums[i].y, apart);
    }
#pragma unroll
  for (int base = 0; base < Count; base += kLastWarps) {
#pragma unroll
    for (int i = 0; i < kLastWarps; ++i)
      if (base + i < Count) values[i][warp][in_warp] = sums[base + i < Count ? base + i : 0];
    __syncthreads();
    const int32_t tap = turn * Count + base + warp;
    if (base + warp < Count && tap < p.all_taps() && in_warp < p.lanes) {
      float2 sum = values[warp][0][in_warp];
#pragma unroll
      for (int other = 1; other < kLastWarps; ++other)
        sum.x += values[warp][other][in_warp].x, sum.y += values[warp][other][in_warp].y;
      float *const to = p.pieces + (int64_t{split} * p.all_taps() + tap) * p.row_channels() + lane.channel;
      *reinterpret_cast<float2 *>(to) = sum;
    }
    __syncthreads();
  }
}

// Blocks of one split come one after the other: they read the same rows at the same time.
template <class Sums>
__global__ void __launch_bounds__(kLastThreads, Sums::kBlocks)
    sum_depthwise_weights(const __grid_constant__ LastSums p) {
  const auto block = static_cast<int32_t>(blockIdx.x), each = p.slices * p.turns;
  const int32_t split = block / each, turn = (block - split * each) / p.slices, slice = block % p.slices;
  const LastLane lane(p, slice, split);
  Sums sums;
  ptx::let_next_begin(), ptx::await_previous();
  if (lane.there)
#pragma unroll 1
    for (int32_t unit = lane.first; unit < lane.end; unit += lane.step) sums.add(p, lane, LastUnit(p, unit), turn);
  leave_piece(p, sums.sums, lane, turn, split);
}

// ---------------------------------------------------------------- the sum over splits

// A block adds the pieces of 32 pairs of channels: each warp some splits, in order, and the first of them those sums.
static __global__ void __launch_bounds__(kLastThreads, 1) add_depthwise_splits(const __grid_constant__ LastSums p) {
  __shared__ float2 sums[kLastWarps][32];
  const int32_t way = static_cast<int32_t>(threadIdx.x) / 32, lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t all = p.all_taps() * p.row_channels() / 2, i = static_cast<int32_t>(blockIdx.x) * 32 + lane;
  const int32_t first = p.splits * way / kLastWarps, last = p.splits * (way + 1) / kLastWarps;
  const auto *from = reinterpret_cast<const float2 *>(p.pieces) + int64_t{first} * all + min(i, all - 1);
  ptx::let_next_begin(), ptx::await_previous();
  float2 sum = {};
#pragma unroll 8
  for (int32_t split = first; split < last; ++split, from += all) sum.x += from->x, sum.y += from->y;
  sums[way][lane] = sum;
  __syncthreads();
  if (way > 0 || i >= all) return;
#pragma unroll
  for (int other = 1; other < kLastWarps; ++other) sum.x += sums[other][lane].x, sum.y += sums[other][lane].y;
  const int32_t tap = i / (p.row_channels() / 2), channel = (i - tap * (p.row_channels() / 2)) * 2;
  const int32_t line = tap / p.taps[2], plane = line / p.taps[1];
  const int64_t at = p.weights.at(channel, 0, plane, line - plane * p.taps[1], tap - line * p.taps[2]);
  if (channel < p.channels) store(p.result, p.result_type, at, sum.x);
  if (channel + 1 < p.channels) store(p.result, p.result_type, at + p.weights.stride[0], sum.y);
}

// ---------------------------------------------------------------- launch

template <class Sums>
void launch_last_sums(const LastSums &p, cudaStream_t stream) {
  launch_early_if(p.early, sum_depthwise_weights<Sums>, static_cast<unsigned>(p.slices * p.turns * p.splits),
                  kLastThreads, 0, stream, p);
  const int32_t pairs = p.all_taps() * p.row_channels() / 2;
  launch_early_if(p.early, add_depthwise_splits, static_cast<unsigned>((pairs + 31) / 32), kLastThreads, 0, stream, p);
}

template <class T>
void launch_taps(const LastSums &p, cudaStream_t stream) {
  return p.pairs ? launch_last_sums<TapSums<T, true>>(p, stream) : launch_last_sums<TapSums<T, false>>(p, stream);
}

// In the order of kLastColumns.
template <class T, size_t... I>
LastLauncher last_launcher(int columns, std::index_sequence<I...>) {
  static constexpr LastLauncher kLaunchers[] = {
      launch_last_sums<ColumnSums<T, kLastColumns[I].taps, kLastColumns[I].stride, kLastColumns[I].lines>>...};
  return columns < 0 ? launch_taps<T> : kLaunchers[columns];
}
template <class T>
LastLauncher last_launcher(int columns) {
  return last_launcher<T>(columns, std::make_index_sequence<kLastColumnsCount>());
}

} // namespace polyconv::cuda::shared
