// outer.cu - a block sums a tile of the gradient over all rows in order: 32 rows of both factors lie in shared memory,
// the next 32 are on their way meanwhile. In tiles of 16 x 128 a thread reads what it needs from the caches into
// registers, 16 rows at a time: nothing is staged, and nobody waits for others.
// SPDX-License-Identifier: Apache-2.0
#include "vector/outer.hpp"

#include <algorithm>

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

// A row's products of a filter and four columns; of four filters, from `f` on.
__device__ inline void add_product(float dy, const float4 &x, float (&sums)[4]) {
  sums[0] = fmaf(dy, x.x, sums[0]), sums[1] = fmaf(dy, x.y, sums[1]);
  sums[2] = fmaf(dy, x.z, sums[2]), sums[3] = fmaf(dy, x.w, sums[3]);
}
template <int Filters>
__device__ inline void add_products(const float4 &dy, const float4 &x, float (&sums)[Filters][4], int f) {
  add_product(dy.x, x, sums[f]), add_product(dy.y, x, sums[f + 1]);
  add_product(dy.z, x, sums[f + 2]), add_product(dy.w, x, sums[f + 3]);
}

template <class Tile>
__device__ inline void multiply(const float *stage, int32_t rows, int32_t filter, int32_t column,
                                float (&sums)[Tile::thread_filters][4]) {
#pragma unroll 4
  for (int32_t r = 0; r < rows; ++r) {
    const float4 x = *reinterpret_cast<const float4 *>(stage + r * Tile::row + Tile::filters + column);
    if constexpr (Tile::thread_filters == 1) {
      add_product(stage[r * Tile::row + filter], x, sums[0]);
    } else {
#pragma unroll
      for (int f = 0; f < Tile::thread_filters; f += 4)
        add_products(*reinterpret_cast<const float4 *>(stage + r * Tile::row + filter + f), x, sums, f);
    }
  }
}

template <int Filters>
__device__ inline void store(const OuterProduct &p, const OuterTile &at, int32_t filter, int32_t column,
                             const float (&sums)[Filters][4]) {
  const int32_t depth = at.depth + column;
  int32_t columns[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) columns[c] = p.depth_offset(min(depth + c, p.x.columns - 1));
#pragma unroll
  for (int f = 0; f < Filters; ++f) {
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
  store(p, at, filter, column, sums);
}

// ---------------------------------------------------------------- from registers to registers

constexpr int kTogether = 16; // rows whose loads are under way at a time

// Four neighbouring columns of a row; zeros where there are none.
template <bool Vectors>
__device__ inline float4 load_quad(const OuterRows &r, int32_t row, int32_t column, bool there) {
  const auto *const from = static_cast<const float *>(r.data) + row;
  float4 v = {};
  if constexpr (Vectors) {
    if (there && column < r.columns) v = __ldg(reinterpret_cast<const float4 *>(from + column));
  } else {
    if (there && column < r.columns) v.x = __ldg(from + column * r.step);
    if (there && column + 1 < r.columns) v.y = __ldg(from + (column + 1) * r.step);
    if (there && column + 2 < r.columns) v.z = __ldg(from + (column + 2) * r.step);
    if (there && column + 3 < r.columns) v.w = __ldg(from + (column + 3) * r.step);
  }
  return v;
}

// A warp has four filters and 128 columns, the four warps of a block 16 filters of the same columns. A lane finds where
// one row begins and tells the others: the divisions of every row's coordinates would take longer than the rows.
template <bool Vectors>
__global__ void __launch_bounds__(kThreads, 1) multiply_rows(const __grid_constant__ OuterProduct p) {
  const OuterTile at(p, static_cast<int32_t>(blockIdx.x), 16, 128);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, column = lane * 4;
  const int32_t filter = static_cast<int32_t>(threadIdx.x) / 32 * 4;
  const int32_t dy_begin = at.group * p.dy.group, x_begin = at.group * p.x.group;
  float sums[4][4] = {};
  ptx::let_next_begin(), ptx::await_previous();
#pragma unroll 1
  for (int32_t first = 0; first < p.rows; first += 32) {
    const int32_t mine = min(first + lane, p.rows - 1), dy_row = p.dy.walk.at(mine), x_row = p.x.walk.at(mine);
#pragma unroll 1
    for (int32_t step = 0; step < 32 && first + step < p.rows; step += kTogether) {
      float4 dy[kTogether], x[kTogether];
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const bool there = first + step + r < p.rows;
        const int32_t dy_at = dy_begin + __shfl_sync(~0u, dy_row, step + r);
        const int32_t x_at = x_begin + __shfl_sync(~0u, x_row, step + r);
        dy[r] = load_quad<Vectors>(p.dy, dy_at, at.filter + filter, there);
        x[r] = load_quad<Vectors>(p.x, x_at, at.depth + column, there);
      }
#pragma unroll
      for (int r = 0; r < kTogether; ++r) add_products(dy[r], x[r], sums, 0);
    }
  }
  store(p, at, filter, column, sums);
}

// ---------------------------------------------------------------- launch

// Bytes of shared memory that a block has beside the `taken` that its kernel has for good, so that no more blocks fit
// on a multiprocessor than it has of a launch: those of the next, which begin early to wait there, crowded on some (96
// x 1536 weights 3.8 us, now 2.6). Of the current device, which lets the kernel have as much as there is.
template <auto Kernel>
int make_room(const OuterProduct &p, int64_t taken) {
  constexpr int64_t kReserved = 1 << 10; // of each block
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  allow_shared(Kernel, block_shared_bytes(device) - taken);
  if (!begins_early(device)) return 0;
  const int64_t blocks = ceil_div(static_cast<int64_t>(outer_tiles(p)), multiprocessors_of(device));
  const int64_t each = (block_shared_bytes(device) + kReserved) / std::max<int64_t>(blocks, 1) - kReserved;
  return static_cast<int>(std::max<int64_t>(0, each - taken) / 16 * 16);
}

template <auto Kernel>
void launch_apart(const OuterProduct &p, bool early, int shared_bytes, cudaStream_t stream) {
  launch_early_if(early, Kernel, static_cast<unsigned>(outer_tiles(p)), kThreads, shared_bytes, stream, p);
}

template <class Tile>
OuterLauncher staged(const OuterProduct &p) {
  constexpr auto kKernel = multiply_outer<Tile>;
  return {launch_apart<kKernel>, make_room<kKernel>(p, sizeof(float) * 2 * kRows * Tile::row)};
}

void launch_rows(const OuterProduct &p, bool early, int shared_bytes, cudaStream_t stream) {
  const bool vectors = p.x.width == 16 && p.dy.width == 16; // of this run
  (vectors ? launch_apart<multiply_rows<true>> : launch_apart<multiply_rows<false>>)(p, early, shared_bytes, stream);
}

} // namespace

OuterLauncher outer_f32(const OuterProduct &p, const OuterShape &shape) {
  if (shape.filters == 64) return staged<Stage64x64>(p);
  if (shape.depth == 32) return staged<Stage16x32>(p);
  make_room<multiply_rows<false>>(p, 0);
  return {launch_rows, make_room<multiply_rows<true>>(p, 0)};
}

} // namespace polyconv::cuda::gemm
