// last.cuh - the gradient of weights of depthwise layers, channels last. A warp reads neighbouring channels, so that
// every load is a whole line. It goes down a strip of columns: a line of x is loaded once for all lines of taps, whose
// rows of dy are still in registers.
//
// Floor: one read of x and dy. What a multiprocessor issues is nearer: of a strip of 4 outputs and 3 x 3 taps, 36
// products of each channel, 10 loads and, of 16 bits, 20 conversions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/device/launch.hpp"
#include "common/ptx/grid.cuh"
#include "common/values.cuh"
#include "weights/last.hpp"
#include "weights/last_splits.cuh"

namespace polyconv::cuda::shared {

// ---------------------------------------------------------------- loads

// Two neighbouring channels as they lie in memory, where they are a word.
template <class T>
using LastWord = std::conditional_t<sizeof(T) == 4, float2, uint32_t>;

template <class T>
__device__ inline float2 channels_of(const LastWord<T> &word) {
  const auto *const two = reinterpret_cast<const T *>(&word);
  return make_float2(value(two[0]), value(two[1]));
}

// Two neighbouring channels; where they are no word, the second may not exist.
template <class T, bool Pairs>
__device__ inline float2 load_channels(const T *from, bool both) {
  if constexpr (Pairs)
    return channels_of<T>(*reinterpret_cast<const LastWord<T> *>(from));
  else
    return make_float2(value(from[0]), both ? value(from[1]) : 0.0f);
}

__device__ inline void add_product(float2 &sum, float2 x, float2 y) {
  sum.x = fmaf(x.x, y.x, sum.x), sum.y = fmaf(x.y, y.y, sum.y);
}

// ---------------------------------------------------------------- where a lane works

// The lane's channels, and the units of its group: every groups-th of the split.
struct LastLane {
  int32_t channel, first, end, step;
  bool there, both;

  __device__ LastLane(const LastSums &p, int32_t slice, int32_t split) {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    channel = (slice * p.lanes + thread % p.lanes) * 2;
    there = channel < p.channels, both = channel + 1 < p.channels;
    first = static_cast<int32_t>(int64_t{p.units} * split / p.splits) + thread / p.lanes;
    end = static_cast<int32_t>(int64_t{p.units} * (split + 1) / p.splits);
    step = kLastThreads / p.lanes;
  }
};

// A unit: its image, and its outputs from column w on, rows [begin, end) at depth d.
template <class T>
struct LastUnit {
  int32_t d, w, begin, end;
  const T *x, *dy; // of the lane's first channel: of the image, and of the strip in row 0

  __device__ LastUnit(const LastSums &p, const LastLane &lane, int32_t unit) {
    const int32_t rest = unit / p.strips, plane = rest / p.bands, image = plane / p.out[0];
    w = (unit - rest * p.strips) * kStrip, begin = (rest - plane * p.bands) * p.band;
    end = min(begin + p.band, p.out[1]);
    d = plane - image * p.out[0];
    x = static_cast<const T *>(p.x) + image * p.x_image + lane.channel;
    dy = static_cast<const T *>(p.dy) + image * p.dy_image + d * p.dy_stride[0] + w * p.dy_stride[2] + lane.channel;
  }
  // How many columns there are.
  __device__ int32_t columns(const LastSums &p) const { return p.out[2] - w; }
};

// ---------------------------------------------------------------- sums of a turn

// `Lines` lines of `Taps` neighbouring columns, at stride `Step` both ways.
template <class T, int Taps, int Step, int Lines>
struct ColumnSums {
  static constexpr LastRegisters kHolds = {{Taps, Step, Lines}, sizeof(T)};
  static constexpr int kCount = Lines * Taps, kInputs = kHolds.inputs(), kRows = kHolds.rows(),
                       kPhases = kHolds.phases(), kBlocks = kHolds.blocks();
  float2 sums[kCount] = {};

  // Where the taps of a turn begin.
  struct Turn {
    int32_t plane, line, column;

    __device__ Turn(const LastSums &p, int32_t turn) {
      const int32_t across = (p.taps[2] + Taps - 1) / Taps, down = (p.taps[1] + Lines - 1) / Lines;
      const int32_t group = turn / across;
      plane = group / down;
      line = (group - plane * down) * Lines, column = (turn - group * across) * Taps;
    }
  };

  // The tap of sum i, -1 where the window has no such line or column.
  __device__ static int32_t tap_of(const LastSums &p, int32_t turn, int i) {
    const Turn first(p, turn);
    const int32_t line = first.line + i / Taps, column = first.column + i % Taps;
    return line < p.taps[1] && column < p.taps[2] ? (first.plane * p.taps[1] + line) * p.taps[2] + column : -1;
  }

  __device__ void add(const LastSums &p, const LastLane &lane, int32_t unit, int32_t turn) {
    const LastUnit<T> at(p, lane, unit);
    const Turn taps(p, turn);
    const int32_t depth = at.d * p.stride[0] - p.pad[0] + taps.plane * p.dilation[0];
    if (depth < 0 || depth >= p.in[0]) return;
    const int32_t first = taps.line - p.pad[1], left = at.w * Step - p.pad[2] + taps.column;
    const T *const x = at.x + depth * p.x_stride[0] + left * p.x_stride[2];
    const Strip strip = {x, first, left, at.columns(p) >= kStrip, left >= 0 && left + kInputs <= p.in[2]};
    float2 y[kRows][kStrip];
    Row next;
    next.load(p, at, strip, at.begin);
#pragma unroll 1
    for (int32_t h = at.begin; h < at.end + kRows - 1; h += kRows)
#pragma unroll
      for (int turned = 0; turned < kRows; ++turned) // row h of dy takes the place of the one kRows before
        add_row(p, at, strip, h + turned, y, turned, next);
  }

 private:
  // Where the strip of a unit lies in x: line 0 from column `left` on. `all_outputs`, `all_inputs`: all of its columns
  // exist.
  struct Strip {
    const T *x;
    int32_t first, left;
    bool all_outputs, all_inputs;

    // The first line of x that row `h` of dy is the first to meet, and whether all of them exist, as the row does.
    __device__ int32_t line_of(int32_t h) const { return h * Step + first; }
    __device__ bool has_row(const LastSums &p, const LastUnit<T> &at, int32_t h) const {
      return h < at.end && line_of(h) >= 0 && line_of(h) + kPhases <= p.in[1];
    }
  };

  // Row `h` of dy, and the lines of x that it is the first to meet, on their way from memory.
  struct Row {
    LastWord<T> dy[kStrip], x[kPhases][kInputs];

    __device__ void load(const LastSums &p, const LastUnit<T> &at, const Strip &strip, int32_t h) {
      if (strip.all_outputs && strip.all_inputs && strip.has_row(p, at, h))
        load<true>(p, at, strip, h);
      else
        load<false>(p, at, strip, h);
    }

   private:
    // `All`: everything exists, and no element is asked whether it does.
    template <bool All>
    __device__ void load(const LastSums &p, const LastUnit<T> &at, const Strip &strip, int32_t h) {
#pragma unroll
      for (int u = 0; u < kStrip; ++u) {
        dy[u] = {};
        if (All || (h < at.end && u < at.columns(p)))
          dy[u] = *reinterpret_cast<const LastWord<T> *>(at.dy + h * p.dy_stride[1] + u * p.dy_stride[2]);
      }
#pragma unroll
      for (int phase = 0; phase < kPhases; ++phase) {
        const int32_t line = strip.line_of(h) + phase;
        const bool there = static_cast<uint32_t>(line) < static_cast<uint32_t>(p.in[1]);
#pragma unroll
        for (int i = 0; i < kInputs; ++i) {
          x[phase][i] = {};
          if (All || (there && static_cast<uint32_t>(strip.left + i) < static_cast<uint32_t>(p.in[2])))
            x[phase][i] = *reinterpret_cast<const LastWord<T> *>(strip.x + line * p.x_stride[1] + i * p.x_stride[2]);
        }
      }
    }
  };

  // Row `h` of dy, in place `place`, and its lines of x, while those of the next row are on their way.
  __device__ void add_row(const LastSums &p, const LastUnit<T> &at, const Strip &strip, int32_t h,
                          float2 (&y)[kRows][kStrip], int place, Row &next) {
    float2 x[kPhases][kInputs];
#pragma unroll
    for (int u = 0; u < kStrip; ++u) y[place][u] = channels_of<T>(next.dy[u]);
#pragma unroll
    for (int phase = 0; phase < kPhases; ++phase)
#pragma unroll
      for (int i = 0; i < kInputs; ++i) x[phase][i] = channels_of<T>(next.x[phase][i]);
    if (h + 1 < at.end + kRows - 1) next.load(p, at, strip, h + 1);
    if (strip.all_outputs && h - (kRows - 1) >= at.begin && strip.has_row(p, at, h))
      multiply<true>(p, at, strip, h, x, y, place);
    else
      multiply<false>(p, at, strip, h, x, y, place);
  }

  // `All`: every line meets outputs that exist. A branch for each of them took longer than its products. Outputs that
  // do not exist meet nothing: their inputs may be infinite.
  template <bool All>
  __device__ void multiply(const LastSums &p, const LastUnit<T> &at, const Strip &strip, int32_t h,
                           const float2 (&x)[kPhases][kInputs], const float2 (&y)[kRows][kStrip], int place) {
    const int32_t there = at.columns(p);
#pragma unroll
    for (int r = 0; r < Lines; ++r) {
      const int back = r / Step, phase = r % Step; // rows of dy before this one; the line of x
      const int32_t line = strip.line_of(h) + phase;
      if (!All &&
          (h - back < at.begin || h - back >= at.end || static_cast<uint32_t>(line) >= static_cast<uint32_t>(p.in[1])))
        continue;
#pragma unroll
      for (int u = 0; u < kStrip; ++u)
        if (All || u < there)
#pragma unroll
          for (int tap = 0; tap < Taps; ++tap)
            add_product(sums[r * Taps + tap], x[phase][u * Step + tap], y[(place - back + kRows) % kRows][u]);
    }
  }
};

// Any taps of any window, one by one.
template <class T, bool Pairs>
struct TapSums {
  static constexpr int kBlocks = kTapBlocks, kCount = kTurnTaps;
  float2 sums[kCount] = {};

  __device__ static int32_t tap_of(const LastSums &p, int32_t turn, int i) {
    return turn * kCount + i < p.all_taps() ? turn * kCount + i : -1;
  }

  __device__ void add(const LastSums &p, const LastLane &lane, int32_t unit, int32_t turn) {
    const LastUnit<T> at(p, lane, unit);
    const T *from[kCount];
    int32_t down[kCount], across[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int32_t tap = turn * kCount + i, line = tap / p.taps[2], plane = line / p.taps[1];
      const int32_t depth = at.d * p.stride[0] - p.pad[0] + plane * p.dilation[0];
      from[i] = tap < p.all_taps() && depth >= 0 && depth < p.in[0] ? at.x + depth * p.x_stride[0] : nullptr;
      down[i] = (line - plane * p.taps[1]) * p.dilation[1] - p.pad[1];
      across[i] = (tap - line * p.taps[2]) * p.dilation[2] - p.pad[2];
    }
#pragma unroll 1
    for (int32_t h = at.begin; h < at.end; ++h)
#pragma unroll 1
      for (int32_t u = 0; u < min(kStrip, at.columns(p)); ++u) {
        const float2 y = load_channels<T, Pairs>(at.dy + h * p.dy_stride[1] + u * p.dy_stride[2], lane.both);
        float2 v[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          const int32_t line = h * p.stride[1] + down[i], column = (at.w + u) * p.stride[2] + across[i];
          const bool inside = from[i] != nullptr && static_cast<uint32_t>(line) < static_cast<uint32_t>(p.in[1]) &&
                              static_cast<uint32_t>(column) < static_cast<uint32_t>(p.in[2]);
          v[i] = inside ? load_channels<T, Pairs>(from[i] + line * p.x_stride[1] + column * p.x_stride[2], lane.both)
                        : float2{};
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) add_product(sums[i], v[i], y);
      }
  }
};

// ---------------------------------------------------------------- the block

// The block's sums as a piece. Groups of lanes within a warp add up first, then warps, both in order.
template <class Sums>
__device__ inline void leave_piece(const LastSums &p, Sums &all, const LastLane &lane, int32_t turn, int32_t split) {
  constexpr int Count = Sums::kCount;
  auto &sums = all.sums;
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
    const int32_t tap = base + warp < Count ? Sums::tap_of(p, turn, base + warp) : -1;
    if (tap >= 0 && in_warp < p.lanes) {
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

// Blocks of one split come one after the other: they read the same lines at the same time.
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
    for (int32_t unit = lane.first; unit < lane.end; unit += lane.step) sums.add(p, lane, unit, turn);
  leave_piece(p, sums, lane, turn, split);
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

#define POLYCONV_INSTANCE(T) template shared::LastLauncher shared::last_launcher<T>(int);
