// outer.cuh - a warp sums a tile of the gradient over all rows, from memory to registers and from registers to memory.
//
// A lane has Wide neighbouring filters and Wide neighbouring columns of four rows of every 16. Pairs of rows are what
// the instruction multiplies: two words of two rows become, by halves, pairs for two filters or two columns. Which rows
// of the 16 and which columns of the tile are whose is the same for both factors, so nothing else moves.
//
//   product of filters 2 i, 2 i + 1 of each eight lanes' filters, and of column j of each eight lanes' columns:
//     first operand: row g (g = lane / 4) is filter Wide g + 2 i, row g + 8 the next; q = lane % 4 has rows 4 q .. + 3
//     second operand: column g is column Wide (g / 2 + 4 (g % 2)) + j
//     sums: of filters Wide g + 2 i and the next, columns Wide q + j and Wide (q + 4) + j, so that the four lanes of a
//     filter store whole sectors at once: as far apart as half a sector, the stores of a tile took twice as long
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/pairs.cuh"
#include "common/ptx/grid.cuh"
#include "common/ptx/mma.cuh"
#include "common/values.cuh"
#include "vector/outer.hpp"

namespace polyconv::cuda::tensor {

inline constexpr int kOuterWarps = 4; // of a block, each a tile of its own

// Wide neighbouring elements as words.
template <int Wide>
struct alignas(2 * Wide) OuterVector {
  uint32_t words[Wide / 2];
};

// Of a row that begins at `row`; zeros where it does not exist (`there`), and in columns that do not.
template <int Wide, bool Vectors>
__device__ inline OuterVector<Wide> load_vector(const OuterRows &r, int32_t row, int32_t column, bool there) {
  OuterVector<Wide> v = {};
  const auto *const from = static_cast<const uint16_t *>(r.data) + row;
  if constexpr (Vectors) {
    if (there && column < r.columns) v = *reinterpret_cast<const OuterVector<Wide> *>(from + column);
  } else {
#pragma unroll
    for (int i = 0; i < Wide / 2; ++i) {
      const int32_t at = column + 2 * i;
      const uint32_t low = there && at < r.columns ? from[at * r.step] : 0;
      const uint32_t high = there && at + 1 < r.columns ? from[(at + 1) * r.step] : 0;
      v.words[i] = low | high << 16;
    }
  }
  return v;
}

// Element `i` of two vectors, side by side.
template <int Wide>
__device__ inline uint32_t pair_at(const OuterVector<Wide> &a, const OuterVector<Wide> &b, int i) {
  return __byte_perm(a.words[i / 2], b.words[i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
}

template <class T, int Wide, bool Vectors>
class OuterWarp {
  static constexpr int kRows = 32;                                // a row a lane, in two steps of 16
  static constexpr int kTogether = Wide == 8 && !Vectors ? 1 : 2; // steps whose loads are under way at a time

 public:
  static constexpr int tile = 8 * Wide; // filters, and columns

  __device__ OuterWarp(const OuterProduct &p, const OuterTile &at) : lane_(static_cast<int32_t>(threadIdx.x) % 32) {
    filter_ = at.filter + lane_ / 4 * Wide, column_ = at.depth + (lane_ / 8 + lane_ / 4 % 2 * 4) * Wide;
    dy_ = at.group * p.dy.group, x_ = at.group * p.x.group;
  }

  // A lane finds where one row begins and tells the others: all of a warp's code runs once, and fetching the divisions
  // of every row's coordinates took longer than the rows.
  __device__ void multiply(const OuterProduct &p) {
#pragma unroll 1
    for (int32_t first = 0; first < p.rows; first += kRows) {
      const int32_t mine = min(first + lane_, p.rows - 1), dy_row = p.dy.walk.at(mine), x_row = p.x.walk.at(mine);
      if constexpr (kTogether == 2) {
        multiply_steps(p, first, 0, dy_row, x_row);
      } else {
#pragma unroll 1
        for (int step = 0; step < kRows; step += 16) multiply_steps(p, first, step, dy_row, x_row);
      }
    }
  }

  __device__ void store(const OuterProduct &p, const OuterTile &at) const {
    const int32_t depth = at.depth + lane_ % 4 * Wide;
    if (p.result_type != POLYCONV_F32 && p.result_width >= 2 * Wide) return store_vectors(p, at, depth);
    int32_t columns[2 * Wide];
#pragma unroll
    for (int c = 0; c < 2 * Wide; ++c) columns[c] = p.depth_offset(min(depth + column_of(c), p.x.columns - 1));
    if (p.result_type == POLYCONV_F32)
      store_elements(p, at, depth, columns, static_cast<float *>(p.result), [](float v) { return v; });
    else
      store_elements(p, at, depth, columns, static_cast<uint16_t *>(p.result),
                     [](float v) { return static_cast<uint16_t>(pair_of(v, v, T())); });
  }

 private:
  // Rows from first + step on, whose loads are under way together; `dy_row`, `x_row`: where this lane's row begins.
  __device__ void multiply_steps(const OuterProduct &p, int32_t first, int step, int32_t dy_row, int32_t x_row) {
    OuterVector<Wide> dy[kTogether][4], x[kTogether][4];
#pragma unroll
    for (int s = 0; s < kTogether; ++s)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int32_t row = step + s * 16 + lane_ % 4 * 4 + r;
        const bool there = first + row < p.rows;
        dy[s][r] = load_vector<Wide, Vectors>(p.dy, dy_ + __shfl_sync(~0u, dy_row, row), filter_, there);
        x[s][r] = load_vector<Wide, Vectors>(p.x, x_ + __shfl_sync(~0u, x_row, row), column_, there);
      }
#pragma unroll
    for (int s = 0; s < kTogether; ++s)
      if (first + step + s * 16 < p.rows) multiply_step(dy[s], x[s]);
  }

  __device__ void multiply_step(const OuterVector<Wide> (&dy)[4], const OuterVector<Wide> (&x)[4]) {
#pragma unroll
    for (int i = 0; i < Wide / 2; ++i) {
      const uint32_t a[4] = {pair_at(dy[0], dy[1], 2 * i), pair_at(dy[0], dy[1], 2 * i + 1),
                             pair_at(dy[2], dy[3], 2 * i), pair_at(dy[2], dy[3], 2 * i + 1)};
#pragma unroll
      for (int j = 0; j < Wide; ++j) {
        const uint32_t b[2] = {pair_at(x[0], x[1], j), pair_at(x[2], x[3], j)};
        ptx::multiply_add(sums_[i][j], a, b, T());
      }
    }
  }

  // How far column `c` of a lane is from its first.
  static constexpr int kHalves = 4 * Wide;
  __device__ static constexpr int column_of(int c) {
    return c / Wide * kHalves + c % Wide;
  }

  // The sum of a lane's filter and column.
  __device__ float sum(int filter, int column) const {
    return sums_[filter / 2][column % Wide][filter % 2 * 2 + column / Wide];
  }

  __device__ void store_vectors(const OuterProduct &p, const OuterTile &at, int32_t depth) const {
#pragma unroll
    for (int f = 0; f < Wide; ++f) {
      if (filter_ + f >= p.dy.columns) continue;
      auto *const to =
          static_cast<uint16_t *>(p.result) + (at.group * p.dy.columns + filter_ + f) * p.filter_step + depth;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (depth + half * kHalves >= p.x.columns) continue;
        OuterVector<Wide> v;
#pragma unroll
        for (int i = 0; i < Wide / 2; ++i)
          v.words[i] = pair_of(sum(f, half * Wide + 2 * i), sum(f, half * Wide + 2 * i + 1), T());
        if constexpr (Wide == 8)
          if (p.streams) {
            __stcs(reinterpret_cast<uint4 *>(to + half * kHalves), *reinterpret_cast<const uint4 *>(v.words));
            continue;
          }
        *reinterpret_cast<OuterVector<Wide> *>(to + half * kHalves) = v;
      }
    }
  }

  template <class To, class Round>
  __device__ void store_elements(const OuterProduct &p, const OuterTile &at, int32_t depth,
                                 const int32_t (&columns)[2 * Wide], To *result, const Round &round) const {
#pragma unroll
    for (int f = 0; f < Wide; ++f) {
      To *const to = result + (at.group * p.dy.columns + filter_ + f) * p.filter_step;
#pragma unroll
      for (int c = 0; c < 2 * Wide; ++c)
        if (filter_ + f < p.dy.columns && depth + column_of(c) < p.x.columns) to[columns[c]] = round(sum(f, c));
    }
  }

  const int32_t lane_;
  int32_t filter_, column_, dy_, x_;
  float sums_[Wide / 2][Wide][4] = {};
};

template <class T, int Wide, bool Vectors>
__global__ void __launch_bounds__(32 * kOuterWarps, 1)
    multiply_outer(const __grid_constant__ OuterProduct p, int32_t tiles) {
  using Warp = OuterWarp<T, Wide, Vectors>;
  const auto warp = static_cast<int32_t>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  ptx::let_next_begin();
  if (warp >= tiles) return;
  const OuterTile at(p, warp, Warp::tile, Warp::tile);
  Warp sums(p, at);
  ptx::await_previous();
  sums.multiply(p);
  sums.store(p, at);
}

// Few tiles are spread over the device a warp each.
template <class T, int Wide, bool Vectors>
void launch_outer(const OuterProduct &p, bool early, int shared_bytes, cudaStream_t stream) {
  const auto tiles = static_cast<int32_t>(outer_tiles(p));
  const int warps = tiles > 4 * kHopperMultiprocessors ? kOuterWarps : 1;
  const auto blocks = static_cast<unsigned>(ceil_div(tiles, warps));
  launch_early_if(early, multiply_outer<T, Wide, Vectors>, blocks, 32 * warps, shared_bytes, stream, p, tiles);
}

template <class T, int Wide>
void launch_outer_of(const OuterProduct &p, bool early, int shared_bytes, cudaStream_t stream) {
  const bool vectors = std::min(p.x.width, p.dy.width) >= 2 * Wide;
  (vectors ? launch_outer<T, Wide, true> : launch_outer<T, Wide, false>)(p, early, shared_bytes, stream);
}

template <class T>
OuterLauncher outer_launcher(const OuterShape &shape) {
  return {shape.filters == 16 ? launch_outer_of<T, 2> : launch_outer_of<T, 8>};
}

} // namespace polyconv::cuda::tensor

#define POLYCONV_INSTANCE(T) template OuterLauncher tensor::outer_launcher<T>(const OuterShape &);
