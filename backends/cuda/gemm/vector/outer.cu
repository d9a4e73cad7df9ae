// outer.cu - a block sums a tile of the gradient over all rows in order: 32 rows of both factors lie in shared memory,
// the next 32 are on their way meanwhile.
// SPDX-License-Identifier: Apache-2.0
#include "vector/outer.hpp"

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"

namespace polyconv::cuda::gemm {
namespace {

constexpr int kThreads = 128, kRows = 32;

// A tile of a block, and the filters and columns of a thread: it has four neighbouring columns.
template <int Filters, int Depth, int ThreadFilters>
struct Outer {
  static constexpr int filters = Filters, depth = Depth, thread_filters = ThreadFilters, across = Depth / 4;
  static constexpr int row = Filters + Depth, quads = row / 4; // of a stage: the filters of a row, then its columns
  static_assert(Filters / ThreadFilters * across == kThreads, "every thread has a part of the tile");
};
using Stage16x32 = Outer<16, 32, 1>;
using Stage64x64 = Outer<64, 64, 8>;

// Four neighbouring columns of a row into shared memory; zeros where there are none.
__device__ inline void copy_quad(float *to, const OuterRows &r, int32_t row, int32_t column, bool there) {
  const auto *const from = static_cast<const float *>(r.data) + row;
  if (r.width == 16) {
    const bool inside = there && column < r.columns;
    return copy_async<16>(to, inside ? from + column : static_cast<const float *>(r.data), inside);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool inside = there && column + i < r.columns;
    copy_async<4>(to + i, inside ? from + (column + i) * r.step : static_cast<const float *>(r.data), inside);
  }
}

template <class Tile>
__device__ inline void fetch(const OuterProduct &p, const OuterTile &at, int32_t first, float *stage) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kRows * Tile::quads; i += kThreads) {
    const int32_t r = i / Tile::quads, column = (i - r * Tile::quads) * 4, row = first + r;
    const bool there = row < p.rows, is_dy = column < Tile::filters;
    const OuterRows &from = is_dy ? p.dy : p.x;
    copy_quad(stage + i * 4, from, (there ? from.walk.at(row) : 0) + at.group * from.group,
              is_dy ? at.filter + column : at.depth + column - Tile::filters, there);
  }
}

template <class Tile>
__device__ inline void multiply(const float *stage, int32_t rows, int32_t filter, int32_t column,
                                float (&sums)[Tile::thread_filters][4]) {
#pragma unroll 4
  for (int32_t r = 0; r < rows; ++r) {
    const float4 x = *reinterpret_cast<const float4 *>(stage + r * Tile::row + Tile::filters + column);
    float dy[Tile::thread_filters];
    if constexpr (Tile::thread_filters == 1) {
      dy[0] = stage[r * Tile::row + filter];
    } else {
#pragma unroll
      for (int f = 0; f < Tile::thread_filters; f += 4) {
        const float4 v = *reinterpret_cast<const float4 *>(stage + r * Tile::row + filter + f);
        dy[f] = v.x, dy[f + 1] = v.y, dy[f + 2] = v.z, dy[f + 3] = v.w;
      }
    }
#pragma unroll
    for (int f = 0; f < Tile::thread_filters; ++f) {
      sums[f][0] = fmaf(dy[f], x.x, sums[f][0]), sums[f][1] = fmaf(dy[f], x.y, sums[f][1]);
      sums[f][2] = fmaf(dy[f], x.z, sums[f][2]), sums[f][3] = fmaf(dy[f], x.w, sums[f][3]);
    }
  }
}

template <class Tile>
__device__ inline void store(const OuterProduct &p, const OuterTile &at, int32_t filter, int32_t column,
                             const float (&sums)[Tile::thread_filters][4]) {
  const int32_t depth = at.depth + column;
  int32_t columns[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) columns[c] = p.depth_offset(min(depth + c, p.x.columns - 1));
#pragma unroll
  for (int f = 0; f < Tile::thread_filters; ++f) {
    if (at.filter + filter + f >= p.dy.columns) continue;
    float *const to =
        static_cast<float *>(p.result) + (at.group * p.dy.columns + at.filter + filter + f) * p.filter_step;
    if (p.result_width == 16) {
      if (depth < p.x.columns)
        *reinterpret_cast<float4 *>(to + depth) = make_float4(sums[f][0], sums[f][1], sums[f][2], sums[f][3]);
      continue;
    }
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (depth + c < p.x.columns) to[columns[c]] = sums[f][c];
  }
}

template <class Tile>
__global__ void __launch_bounds__(kThreads, 1) multiply_outer(const __grid_constant__ OuterProduct p) {
  __shared__ __align__(16) float stages[2][kRows * Tile::row];
  const OuterTile at(p, static_cast<int32_t>(blockIdx.x), Tile::filters, Tile::depth);
  const int32_t thread = static_cast<int32_t>(threadIdx.x), column = thread % Tile::across * 4;
  const int32_t filter = thread / Tile::across * Tile::thread_filters;
  float sums[Tile::thread_filters][4] = {};
  ptx::let_next_begin(), ptx::await_previous();
  fetch<Tile>(p, at, 0, stages[0]);
  commit_copies();
  int stage = 0;
#pragma unroll 1
  for (int32_t first = 0; first < p.rows; first += kRows, stage ^= 1) {
    if (first + kRows < p.rows) fetch<Tile>(p, at, first + kRows, stages[stage ^ 1]);
    commit_copies();
    await_groups<1>();
    __syncthreads();
    multiply<Tile>(stages[stage], min(p.rows - first, kRows), filter, column, sums);
    __syncthreads(); // nobody reads the stage any more
  }
  store<Tile>(p, at, filter, column, sums);
}

template <class Tile>
void launch(const OuterProduct &p, bool early, cudaStream_t stream) {
  launch_early_if(early, multiply_outer<Tile>, static_cast<unsigned>(outer_tiles(p)), kThreads, 0, stream, p);
}

} // namespace

OuterLauncher outer_f32(const OuterShape &shape) {
  return shape.filters == Stage16x32::filters ? launch<Stage16x32> : launch<Stage64x64>;
}

} // namespace polyconv::cuda::gemm
