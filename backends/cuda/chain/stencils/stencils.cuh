// stencils.cuh - filters of one channel after one another, in the registers of a warp that marches down the image.
//
// A lane owns C columns. A row that is loaded goes into the sums of all rows of the first filter that see it; the one
// that is complete then is a row of the second filter's input, and so on: no row is computed twice in a strip. Columns
// beside a lane's own come from its neighbours by shuffle, and a warp's outer columns, too few for the last filter, are
// left to the warps beside it.
//
// Each filter takes the row that the one before it completed a step earlier, so that within a step the filters do not
// wait for each other's shuffles and products. A strip's first and last steps do only what its results need: a filter
// begins when a row of its input is complete, adds no rows to sums that began above the strip, and ends with its last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <utility>

#include "common/ptx/numbers.cuh"
#include "common/values.cuh"
#include "stencils/stencils.hpp"

namespace polyconv::cuda::chain {

// Where a lane works.
struct Lane {
  int32_t column;        // the chain's input column of the first register
  uint32_t inside;       // which of these are in the image
  int32_t begin, behind; // the registers that are stored
  int32_t first;         // row of results that is stored
  int32_t row, end;      // of results: the next, and behind the image's last
  float *to;             // that row's, at the first register's column
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

// Which of a lane's columns from `column` on lie in a tensor: a bit each.
template <int C>
__device__ __forceinline__ uint32_t columns_inside(int32_t column, int32_t columns) {
  uint32_t inside = 0;
#pragma unroll
  for (int i = 0; i < C; ++i)
    if (static_cast<uint32_t>(column + i) < static_cast<uint32_t>(columns)) inside |= 1u << i;
  return inside;
}

// What a filter finds outside a tensor, of which a lane holds the columns `inside` of a row. No branch: the steps of
// the filters stay one piece of code.
template <int C>
__device__ __forceinline__ void pad_row(float (&x)[C], int32_t row, int32_t rows, uint32_t inside, float padding) {
  const uint32_t present = static_cast<uint32_t>(row) < static_cast<uint32_t>(rows) ? inside : 0;
#pragma unroll
  for (int i = 0; i < C; ++i) x[i] = (present >> i & 1) != 0 ? x[i] : padding;
}

inline constexpr int kAnyAge = 1 << 20; // rows that a filter has taken where it has taken all that matter

// The filters from `index` on. `first` is where this one's weights begin.
template <int C, bool vectors, bool pads, bool finishes, int index, int first, int... sizes>
struct Filters;

// Behind the last: results.
template <int C, bool vectors, bool pads, bool finishes, int index, int first>
struct Filters<C, vectors, pads, finishes, index, first> {
  __device__ __forceinline__ void begin(const Stencils &, const Lane &) {}
  __device__ __forceinline__ void take(const Stencils &p, Lane &at, const float (&x)[C]) {
    const bool wanted = at.row >= at.first && (!pads || at.row < at.end);
#pragma unroll
    for (int i = 0; i < C; i += vectors ? 4 : 1) {
      if (!wanted || i < at.begin || i >= at.behind) continue;
      if constexpr (vectors)
        *reinterpret_cast<float4 *>(at.to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
      else
        at.to[i] = x[i];
    }
    ++at.row;
    at.to += p.result_row;
  }
};

template <int C, bool vectors, bool pads, bool finishes, int index, int first, int n, int... sizes>
struct Filters<C, vectors, pads, finishes, index, first, n, sizes...> {
  float sum[n - 1][C] = {}; // of the rows under way, the one that is complete next first
  float held[C] = {};       // the row that the filter before completed last
  float bias = 0, floor = 0;
  uint32_t inside = 0; // of this filter's results
  Filters<C, vectors, pads, finishes, index + 1, first + n * n, sizes...> next;

  __device__ __forceinline__ void begin(const Stencils &p, const Lane &at) {
    if (pads) inside = columns_inside<C>(at.column + p.layer[index].shift, p.layer[index].columns);
    if (finishes && p.layer[index].bias) bias = *p.layer[index].bias;
    if (finishes && !p.layer[index].relu) floor = -INFINITY;
    next.begin(p, at);
  }

  // The later filters' steps, and then this one's with `x`, its input row `row`, before which it has taken `age`
  // others. Filters before `low` have taken their last.
  template <int age, int low>
  __device__ __forceinline__ void step(const Stencils &p, Lane &at, float (&x)[C], int32_t row) {
    const int32_t complete = row + p.layer[index].pad - (n - 1);
    if constexpr (sizeof...(sizes) > 0 && age >= n) next.template step<age - n, low>(p, at, next.held, complete - 1);
    if constexpr (index >= low) {
      if constexpr (pads && index == 0) pad_row(x, row, p.rows, at.inside, p.padding);
      float done[C];
      add_row<age>(p, x, done);
      if constexpr (age >= n - 1) finish(p, at, done, complete);
    }
  }

  // A row into the sums that it meets, but for those that began before the strip.
  template <int age>
  __device__ __forceinline__ void add_row(const Stencils &p, const float (&x)[C], float (&done)[C]) {
    float wide[C + n - 1];
    spread<C, n>(x, wide);
#pragma unroll
    for (int a = age < n - 1 ? n - 1 - age : 0; a < n; ++a)
#pragma unroll
      for (int i = 0; i < C; ++i) {
        const float *w = p.weights + first + (n - 1 - a) * n;
        float v = a < n - 1 ? fmaf(wide[i], w[0], sum[a < n - 1 ? a : 0][i]) : multiply(wide[i], w[0]);
#pragma unroll
        for (int s = 1; s < n; ++s) v = fmaf(wide[i + s], w[s], v);
        (a == 0 ? done : sum[a == 0 ? 0 : a - 1])[i] = v;
      }
  }

  // What row `row` of this filter's results becomes.
  __device__ __forceinline__ void finish(const Stencils &p, Lane &at, float (&done)[C], int32_t row) {
#pragma unroll
    for (int i = 0; finishes && i < C; ++i) done[i] = ptx::greater(add(done[i], bias), floor);
    if constexpr (sizeof...(sizes) > 0) {
      if constexpr (pads) pad_row(done, row, p.layer[index].rows, inside, p.layer[index].padding);
#pragma unroll
      for (int i = 0; i < C; ++i) next.held[i] = done[i];
    } else {
      next.take(p, at, done);
    }
  }
};

// How a strip begins. Where the first steps are more code than the instruction cache holds beside the loop, they are
// the loop's, and what they would store is left out.
template <int ahead, int... sizes>
struct Start {
  static constexpr int kFirst = (0 + ... + sizes) - 1; // the step that completes the first result
  static constexpr bool unrolls = kFirst * (0 + ... + (sizes * sizes)) <= 600;
  static constexpr int kLead = unrolls ? 0 : (kFirst + ahead - 1) / ahead * ahead; // steps of the loop before that
  static constexpr int kAbove = unrolls ? 0 : kLead - kFirst;                      // rows that these read needlessly
};

// A strip's rows on their way, and the filters that take them, C columns of each.
template <int C, int ahead, bool vectors, bool pads, bool finishes, int... sizes>
struct March {
  static constexpr int kLoads = vectors ? C / 4 : C, kCount = static_cast<int>(sizeof...(sizes));
  using Begin = Start<ahead, sizes...>;
  const Stencils &p;
  Lane at;
  const float *column[kLoads]; // of the row that is loaded next
  int32_t row, lowest;         // of the next step; that the strip reads
  float x[ahead][C];
  Filters<C, vectors, pads, finishes, 0, 0, sizes...> filters;

  __device__ __forceinline__ March(const Stencils &stencils, const Lane &lane, const float *from, int32_t begin,
                                   int32_t end)
      : p(stencils), at(lane), row(begin), lowest(min(end, stencils.rows) - 1) {
    const int64_t top = static_cast<int64_t>(max(min(begin, lowest), 0)) * p.input_row;
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      column[i] = from + top + max(min(at.column + i * (C / kLoads), p.columns - C / kLoads), 0);
    filters.begin(p, at);
#pragma unroll
    for (int i = 0; i < ahead; ++i) load(i, i - ahead);
  }

  // What lies outside the image comes from its border, and is replaced when the row is used: the row of the step
  // `since` this one, and `ahead`.
  __device__ __forceinline__ void load(int slot, int since) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if constexpr (vectors) {
        const float4 v = __ldg(reinterpret_cast<const float4 *>(column[i]));
        x[slot][4 * i] = v.x, x[slot][4 * i + 1] = v.y, x[slot][4 * i + 2] = v.z, x[slot][4 * i + 3] = v.w;
      } else {
        x[slot][i] = __ldg(column[i]);
      }
    }
    const int32_t loaded = row + since + ahead;
    const int32_t step = !pads || (loaded >= 0 && loaded < lowest) ? p.input_row : 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) column[i] += step;
  }

  template <int... t>
  __device__ __forceinline__ void begin(std::integer_sequence<int, t...>) {
    ((filters.template step<t, 0>(p, at, x[t % ahead], row + t), load(t % ahead, t)), ...);
    row += Begin::kFirst;
  }
  template <int... low>
  __device__ __forceinline__ void end(std::integer_sequence<int, low...>) {
    (filters.template step<kAnyAge, low + 1>(p, at, x[0], row + low), ...);
  }

  // The strip: so many times `ahead` steps between those that begin and end it.
  __device__ __forceinline__ void run(int32_t times) {
    constexpr int slot = Begin::unrolls ? Begin::kFirst : 0;
    if constexpr (Begin::unrolls) begin(std::make_integer_sequence<int, Begin::kFirst>());
#pragma unroll 1
    for (times += Begin::kLead / ahead; times > 0; --times, row += ahead)
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        filters.template step<kAnyAge, 0>(p, at, x[(slot + i) % ahead], row + i);
        if (times > 1) load((slot + i) % ahead, i);
      }
    end(std::make_integer_sequence<int, kCount - 1>());
  }
};

// What a block has to do: a strip of a tile. An image's first and last tile pad, and so do each tile's first and last
// strip, which takes longer: they have fewer rows.
struct Piece {
  int32_t image, tile, strip;
  int32_t before, times; // in the tile's strips above, and in this one: so often `ahead` rows
};
__device__ inline Piece piece_of(const Stencils &p) {
  const int32_t outer = min(p.tiles, 2), inner = p.tiles - outer, first_inner = outer * p.outer.strips;
  const int32_t pieces = first_inner + inner * p.inner.strips, block = static_cast<int32_t>(blockIdx.x) % pieces;
  const bool between = block >= first_inner;
  const StencilStrips &cut = between ? p.inner : p.outer;
  const int32_t across = between ? inner : outer, of = between ? block - first_inner : block;
  const auto begin = [&cut](int32_t strip) {
    const auto share = static_cast<int32_t>(static_cast<int64_t>(strip) * (cut.times + 2 * cut.spared) / cut.strips);
    return min(max(share - cut.spared, 0), cut.times);
  };
  Piece piece;
  piece.image = static_cast<int32_t>(blockIdx.x) / pieces;
  piece.tile = between ? 1 + of % across : of % across * (p.tiles - 1);
  piece.strip = of / across;
  piece.before = begin(piece.strip), piece.times = begin(piece.strip + 1) - piece.before;
  return piece;
}

// A block is a warp, so that rows are the same for all its threads as far as the compiler can see.
template <int C, int ahead, int blocks, bool vectors, int... sizes>
__global__ void __launch_bounds__(32, blocks)
    stencils(const __grid_constant__ Stencils p, const float *input, float *result) {
  constexpr int kTail = (0 + ... + (sizes - 1)), kLast = static_cast<int>(sizeof...(sizes)) - 1;
  const Piece piece = piece_of(p);
  const int32_t left = piece.tile * p.step - p.skip_left - p.layer[kLast].shift;
  const int32_t own = static_cast<int32_t>(threadIdx.x) * C, stored = piece.tile * p.step + own - p.skip_left;
  Lane at;
  at.column = left + own;
  at.inside = columns_inside<C>(at.column, p.columns);
  at.begin = p.skip_left - own;
  at.behind = min(p.skip_left + p.step - own, p.layer[kLast].columns - stored);
  using Begin = Start<ahead, sizes...>;
  const int32_t first = piece.strip * kLast + piece.before * ahead;
  at.first = Begin::unrolls ? INT32_MIN : first;
  at.row = first - Begin::kLead;
  at.end = p.layer[kLast].rows;
  at.to =
      result + p.result_offset + piece.image * p.result_image + static_cast<int64_t>(at.row) * p.result_row + stored;
  const float *from = input + p.input_offset + piece.image * p.input_image;
  int32_t row = first - Begin::kAbove;
#pragma unroll
  for (int i = 0; i <= kLast; ++i) row -= p.layer[i].pad;
  const int32_t end = row + Begin::kAbove + piece.times * ahead + kLast + kTail;
  const bool pads = row < 0 || end > p.rows || left < kTail || left + 32 * C + kTail > p.columns;
  const auto march = [&](auto padded, auto finished) {
    March<C, ahead, vectors, decltype(padded)::value, decltype(finished)::value, sizes...>(p, at, from, row, end)
        .run(piece.times);
  };
  constexpr std::true_type yes;
  constexpr std::false_type no;
  if (!vectors || (pads && p.finishes)) return march(yes, yes);
  if constexpr (vectors) {
    if (p.finishes) return march(no, yes);
    return pads ? march(yes, no) : march(no, no);
  }
}

// For filters of these sizes. Loops of many taps take two rows at once: those of four did not fit the instruction
// cache.
template <int... sizes>
StencilKernel stencil_kernel() {
  constexpr int rows = (0 + ... + sizes), taps = (0 + ... + (sizes * sizes)); // rows: that a lane keeps
  constexpr int warps = rows > 13 ? 12 : 16, ahead = taps <= 58 ? 4 : taps <= 75 ? 3 : 2;
  using Begin = Start<ahead, sizes...>;
  return {{sizes...},
          reinterpret_cast<const void *>(&stencils<4, ahead, warps, true, sizes...>),
          reinterpret_cast<const void *>(&stencils<4, ahead, warps, false, sizes...>),
          warps,
          ahead,
          Begin::unrolls ? Begin::kFirst / 2 : Begin::kLead};
}

template <int count>
const StencilKernel *stencils_of(int &known) {
  static const auto kernels = [] {
    if constexpr (count == 2)
      return std::array{stencil_kernel<3, 3>(), stencil_kernel<3, 5>(), stencil_kernel<5, 3>(), stencil_kernel<5, 5>(),
                        stencil_kernel<7, 3>(), stencil_kernel<3, 7>(), stencil_kernel<7, 7>()};
    else if constexpr (count == 3)
      return std::array{stencil_kernel<3, 3, 3>(), stencil_kernel<5, 3, 3>(), stencil_kernel<5, 5, 3>(),
                        stencil_kernel<5, 5, 5>()};
    else
      return std::array{stencil_kernel<3, 3, 3, 3>(), stencil_kernel<5, 3, 3, 3>()};
  }();
  known = static_cast<int>(kernels.size());
  return kernels.data();
}

} // namespace polyconv::cuda::chain

#define POLYCONV_INSTANCE(count) template const chain::StencilKernel *chain::stencils_of<count>(int &);
