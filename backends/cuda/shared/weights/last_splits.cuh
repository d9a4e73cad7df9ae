// last_splits.cuh - gradients of weights of depthwise layers: what is left when splits have summed,
// [split][tap][channel].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/grid.cuh"
#include "common/values.cuh"
#include "weights/last.hpp"

namespace polyconv::cuda::shared {

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

} // namespace polyconv::cuda::shared
