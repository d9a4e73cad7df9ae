// stencils.cuh - filters of one channel after one another, in the registers of a warp that marches down the image.
//
// A lane owns C columns. A row that is loaded goes into the sums of all rows of the first filter that see it; the one
// that is complete then is a row of the second filter's input, and so on: no row is computed twice in a strip. Columns
// beside a lane's own come from its neighbours by shuffle, and a warp's outer columns, too few for the last filter, are
// left to the warps beside it.
//
// Each filter takes the row that the one before it completed a step earlier, so that within a step the filters do not
// wait for each other's shuffles and products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "at_least.cuh"
#include "common/values.cuh"
#include "stencils.hpp"

namespace polyconv::cuda::chain {

// Where a warp works.
struct Lane {
  int32_t column;        // the chain's input column of the first register
  int32_t first, end;    // rows of results
  int32_t begin, behind; // the registers that are stored
  float *to;             // row 0 of the image's results, at the first register's column
};

// A lane's own columns and those beside them that a filter of n columns reads.
template <int C, int n>
__device__ __forceinline__ void spread(const float (&x)[C], float (&wide)[C + n - 1]) {
  constexpr int left = (n - 1) / 2, right = n - 1 - left;
#pragma unroll
  for (int i = 0; i < left; ++i) wide[i] = __shfl_up_sync(0xffffffffu, x[C - left + i], 1);
#pragma unroll
  for (int i = 0; i < C; ++i) wide[left + i] = x[i];
#pragma unroll
  for (int i = 0; i < right; ++i) wide[left + C + i] = __shfl_down_sync(0xffffffffu, x[i], 1);
}

// What a filter finds outside a tensor, where a row of it that a lane holds from `column` on lies there. No branch: the
// steps of the filters stay one piece of code.
template <int C>
__device__ __forceinline__ void pad_row(float (&x)[C], int32_t row, int32_t rows, int32_t column, int32_t columns,
                                        float padding) {
  const auto present = static_cast<uint32_t>(row >= 0 && row < rows ? columns : 0);
#pragma unroll
  for (int i = 0; i < C; ++i) x[i] = static_cast<uint32_t>(column + i) < present ? x[i] : padding;
}

// The filters from `index` on. `first` is where this one's weights begin.
template <int C, bool vectors, bool pads, bool finishes, int index, int first, int... sizes>
struct Filters;

// Behind the last: results.
template <int C, bool vectors, bool pads, bool finishes, int index, int first>
struct Filters<C, vectors, pads, finishes, index, first> {
  __device__ __forceinline__ void begin(const Stencils &) {}
  __device__ __forceinline__ void take(const Stencils &p, const Lane &at, const float (&x)[C], int32_t row) {
    float *to = at.to + static_cast<int64_t>(row) * p.result_row;
    const bool wanted = row >= at.first && row < at.end;
#pragma unroll
    for (int i = 0; i < C; i += vectors ? 4 : 1) {
      if (!wanted || i < at.begin || i >= at.behind) continue;
      if constexpr (vectors)
        *reinterpret_cast<float4 *>(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
      else
        to[i] = x[i];
    }
  }
};

template <int C, bool vectors, bool pads, bool finishes, int index, int first, int n, int... sizes>
struct Filters<C, vectors, pads, finishes, index, first, n, sizes...> {
  float sum[n - 1][C] = {}; // of the rows under way, the one that is complete next first
  float held[C] = {};       // the row that the filter before completed last
  float bias = 0, floor = 0;
  Filters<C, vectors, pads, finishes, index + 1, first + n * n, sizes...> next;

  __device__ __forceinline__ void begin(const Stencils &p) {
    if (finishes && p.layer[index].bias) bias = *p.layer[index].bias;
    if (finishes && !p.layer[index].relu) floor = -INFINITY;
    next.begin(p);
  }

  // The later filters' steps, and then what completes with `x`, which is this filter's input row `row`.
  __device__ __forceinline__ void step(const Stencils &p, const Lane &at, float (&x)[C], int32_t row) {
    const StencilLayer &l = p.layer[index];
    const int32_t complete = row + l.pad - (n - 1);
    if constexpr (sizeof...(sizes) > 0) next.step(p, at, next.held, complete - 1);
    if constexpr (pads && index == 0) pad_row(x, row, p.rows, at.column, p.columns, p.padding);
    float wide[C + n - 1], done[C];
    spread<C, n>(x, wide);
#pragma unroll
    for (int a = 0; a < n; ++a)
#pragma unroll
      for (int i = 0; i < C; ++i) {
        const float *w = p.weights + first + (n - 1 - a) * n;
        float v = a < n - 1 ? fmaf(wide[i], w[0], sum[a < n - 1 ? a : 0][i]) : multiply(wide[i], w[0]);
#pragma unroll
        for (int s = 1; s < n; ++s) v = fmaf(wide[i + s], w[s], v);
        (a == 0 ? done : sum[a == 0 ? 0 : a - 1])[i] = v;
      }
#pragma unroll
    for (int i = 0; finishes && i < C; ++i) done[i] = at_least(add(done[i], bias), floor);
    if constexpr (sizeof...(sizes) > 0) {
      if constexpr (pads) pad_row(done, complete, l.rows, at.column + l.shift, l.columns, l.padding);
#pragma unroll
      for (int i = 0; i < C; ++i) next.held[i] = done[i];
    } else {
      next.take(p, at, done, complete);
    }
  }
};

// A row of the image; what lies outside comes from its border, and is replaced when the row is used.
template <int C, bool vectors>
__device__ __forceinline__ void load_row(const float *const (&column)[vectors ? C / 4 : C], int64_t offset,
                                         float (&x)[C]) {
#pragma unroll
  for (int i = 0; i < C; i += vectors ? 4 : 1) {
    if constexpr (vectors) {
      const float4 v = __ldg(reinterpret_cast<const float4 *>(column[i / 4] + offset));
      x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
    } else {
      x[i] = __ldg(column[i] + offset);
    }
  }
}

// From input row `row` to the last result.
template <int C, int ahead, bool vectors, bool pads, bool finishes, int... sizes>
__device__ __forceinline__ void march(const Stencils &p, const Lane &at, const float *from, int32_t row, int32_t end) {
  constexpr int kLoads = vectors ? C / 4 : C;
  const float *column[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) column[i] = from + max(min(at.column + i * (C / kLoads), p.columns - C / kLoads), 0);
  const int32_t lowest = min(end, p.rows) - 1;
  const auto offset = [&](int32_t r) { return static_cast<int64_t>(max(min(r, lowest), 0)) * p.input_row; };
  Filters<C, vectors, pads, finishes, 0, 0, sizes...> filters;
  filters.begin(p);
  float x[ahead][C];
#pragma unroll
  for (int i = 0; i < ahead; ++i) load_row<C, vectors>(column, offset(row + i), x[i]);
  const int32_t stop = end + static_cast<int32_t>(sizeof...(sizes)) - 1; // each filter but the first is a step behind
#pragma unroll 1
  for (; row < stop; row += ahead) {
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      filters.step(p, at, x[i], row + i);
      load_row<C, vectors>(column, offset(row + i + ahead), x[i]);
    }
  }
}

// A block is a warp, so that rows are the same for all its threads as far as the compiler can see.
template <int C, int ahead, int blocks, bool vectors, int... sizes>
__global__ void __launch_bounds__(32, blocks)
    stencils(const __grid_constant__ Stencils p, const float *input, float *result) {
  constexpr int kTail = (0 + ... + (sizes - 1)), kLast = static_cast<int>(sizeof...(sizes)) - 1;
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t tile = block % p.tiles, strip = block / p.tiles % p.strips, image = block / p.tiles / p.strips;
  const int32_t left = tile * p.step - p.skip_left - p.layer[kLast].shift;
  const int32_t own = static_cast<int32_t>(threadIdx.x) * C, stored = tile * p.step + own - p.skip_left;
  Lane at;
  at.column = left + own;
  at.begin = p.skip_left - own;
  at.behind = min(p.skip_left + p.step - own, p.layer[kLast].columns - stored);
  at.to = result + p.result_offset + image * p.result_image + stored;
  at.first = strip * p.strip_rows;
  at.end = min(at.first + p.strip_rows, p.layer[kLast].rows);
  const float *from = input + p.input_offset + image * p.input_image;
  int32_t row = at.first;
#pragma unroll
  for (int i = 0; i <= kLast; ++i) row -= p.layer[i].pad;
  const int32_t end = row + (at.end - at.first) + kTail;
  const bool pads = row < 0 || end > p.rows || left < kTail || left + 32 * C + kTail > p.columns;
  if (!vectors || p.finishes)
    march<C, ahead, vectors, true, true, sizes...>(p, at, from, row, end);
  else if (pads)
    march<C, ahead, vectors, true, false, sizes...>(p, at, from, row, end);
  else
    march<C, ahead, vectors, false, false, sizes...>(p, at, from, row, end);
}

// An instance, and how many of its warps fit a multiprocessor.
template <int ahead, bool vectors, int... sizes>
StencilInstance stencil_instance() {
  constexpr int rows = (0 + ... + (sizes - 1)) + static_cast<int>(sizeof...(sizes)); // that a lane keeps
  constexpr int blocks = rows + ahead > 15 ? 12 : 16;
  return {reinterpret_cast<const void *>(&stencils<4, ahead, blocks, vectors, sizes...>), blocks};
}

// For filters of these sizes: without vectors, and with rows of vectors two and four ahead.
template <int... sizes>
StencilKernel stencil_kernel() {
  return {{sizes...},
          stencil_instance<2, false, sizes...>(),
          {stencil_instance<2, true, sizes...>(), stencil_instance<4, true, sizes...>()}};
}

} // namespace polyconv::cuda::chain
