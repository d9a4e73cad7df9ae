// depthwise_data.cpp - backward data, one channel a group. Channels last at stride 2, f32 on AVX-512: in one pass over
// source and result (depthwise/spread_plan.hpp); others: depthwise.cpp over the output's gradient (sdk/adjoint.hpp).
// Floor: as forward.
//
// AVX-512: the sums of eight pairs and the weights of four taps of each column fill its registers.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/spread_plan.hpp"
#include "cpu/depthwise/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Taps [begin, end) of the window for the columns that `Rows` names.
template <int Rows, class Source, int P>
POLYCONV_INLINE void spread_taps(const Source &source, const float *const *pixels, const DepthwiseTaps<float, 2> &from,
                                 int64_t begin, int64_t end, F32 (&acc)[2][P]) {
  const DepthwiseTaps<float, 2> moved = {{from.of[0] + begin * from.row_stride, from.of[1] + begin * from.row_stride},
                                         from.row_stride};
  if (begin < end) add_row<1, Rows>(source, pixels + begin, moved, end - begin, acc);
}

// What a row of sources adds to P pairs, any kernel.
template <int P>
struct SpreadAny {
  const SpreadPlan &p;

  template <class Source>
  POLYCONV_MEMBER void operator()(const Source &source, const float *const *pixels, const DepthwiseTaps<float, 2> &from,
                                  F32 (&acc)[2][P]) const {
    const int64_t both = p.begin[0] > p.begin[1] ? p.begin[0] : p.begin[1];
    const int64_t until = p.end[0] < p.end[1] ? p.end[0] : p.end[1];
    spread_taps<1>(source, pixels, from, p.begin[0], p.end[0] < both ? p.end[0] : both, acc);
    spread_taps<2>(source, pixels, from, p.begin[1], p.end[1] < both ? p.end[1] : both, acc);
    spread_taps<3>(source, pixels, from, both, until, acc);
    spread_taps<1>(source, pixels, from, p.begin[0] > until ? p.begin[0] : until, p.end[0], acc);
    spread_taps<2>(source, pixels, from, p.begin[1] > until ? p.begin[1] : until, p.end[1], acc);
  }
};

// The same of K taps, whose windows depend on the padding before the row being odd alone: plan_.begin and end.
template <int P, int K, bool kOdd>
struct SpreadKernel {
  static constexpr int kBegin[2] = {0, K % 2 == (kOdd ? 0 : 1)},
                       kEnd[2] = {kOdd ? K / 2 : (K + 1) / 2, K / 2 + (K % 2 || kOdd)};
  static constexpr int kWindow = kEnd[0] > kEnd[1] ? kEnd[0] : kEnd[1];

  template <class Source>
  POLYCONV_MEMBER void operator()(const Source &source, const float *const *pixels, const DepthwiseTaps<float, 2> &from,
                                  F32 (&acc)[2][P]) const {
    F32 taps[2][kWindow];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r)
#pragma GCC unroll 4
      for (int u = kBegin[r]; u < kEnd[r]; ++u) taps[r][u] = loaded(load(from.of[r] + u * from.row_stride));
#pragma GCC unroll 16
    for (int i = 0; i < P + kWindow - 1; ++i) {
      const F32 v = loaded(source(pixels[i]));
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r)
#pragma GCC unroll 4
        for (int u = kBegin[r]; u < kEnd[r]; ++u)
          if (i >= u && i - u < P) acc[r][i - u] = multiply_add(v, taps[r][u], acc[r][i - u]);
    }
  }
};

// P pairs, all channels.
template <int P, class Add>
POLYCONV_NOINLINE void spread_tile(const SpreadPlan &p, const Add &add, const DepthwiseTile<float, float> &tile,
                                   const DepthwiseRows &rows, const DepthwiseStore<float> &to) {
  const Load<float, float> convert(0);
  const int64_t column = p.window * p.row_stride;
  for (int64_t c = 0; c < p.channels; c += kF32Lanes) {
    const int64_t at = p.channels - c < kF32Lanes ? p.channels - kF32Lanes : c;
    const DepthwisePart<true, float, float> source = {convert, at, kF32Lanes};
    F32 acc[2][P] = {};
    for (int64_t i = 0; i < rows.count; ++i) {
      const float *weights = tile.weights + rows.taps[i].first * 2 * column + at;
      add(source, tile.pixels + i * tile.line_pixels, {{weights, weights + column}, p.row_stride}, acc);
    }
    store_vectors<float>(to, at, 2 * to.column, (to.columns + 1) / 2, at, kF32Lanes, acc[0]);
    store_vectors<float>(to, to.column + at, 2 * to.column, to.columns / 2, at, kF32Lanes, acc[1]);
  }
}

template <int K>
POLYCONV_INLINE void spread_tile_of(const SpreadPlan &p, const DepthwiseTile<float, float> &tile,
                                    const DepthwiseRows &rows, const DepthwiseStore<float> &to) {
  const bool odd = p.axis[2].before % 2 != 0, seven = p.tile == kDepthwiseSeven;
  constexpr int kW = kDepthwiseWide, kS = kDepthwiseSeven;
  if (seven)
    odd ? spread_tile<kS>(p, SpreadKernel<kS, K, true>{}, tile, rows, to)
        : spread_tile<kS>(p, SpreadKernel<kS, K, false>{}, tile, rows, to);
  else
    odd ? spread_tile<kW>(p, SpreadKernel<kW, K, true>{}, tile, rows, to)
        : spread_tile<kW>(p, SpreadKernel<kW, K, false>{}, tile, rows, to);
}
POLYCONV_INLINE void spread_tile_of(const SpreadPlan &p, const DepthwiseTile<float, float> &tile,
                                    const DepthwiseRows &rows, const DepthwiseStore<float> &to) {
  switch (p.axis[2].taps) {
    case 1: return spread_tile_of<1>(p, tile, rows, to);
    case 2: return spread_tile_of<2>(p, tile, rows, to);
    case 3: return spread_tile_of<3>(p, tile, rows, to);
    case 5: return spread_tile_of<5>(p, tile, rows, to);
    case 7: return spread_tile_of<7>(p, tile, rows, to);
    default: break;
  }
  if (p.tile == kDepthwiseSeven)
    spread_tile<kDepthwiseSeven>(p, SpreadAny<kDepthwiseSeven>{p}, tile, rows, to);
  else
    spread_tile<kDepthwiseWide>(p, SpreadAny<kDepthwiseWide>{p}, tile, rows, to);
}

// The source pixels that row `at` of the results reads: rows of sources in order of their taps.
POLYCONV_INLINE int64_t list_sources(const SpreadPlan &p, const LayerRun &r, const Row &at, const float **list,
                                     DepthwiseLine *taps) {
  const polyconv_tensor &t = p.source;
  const Axis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  const float *const image = static_cast<const float *>(r.input) + t.offset + at.n * t.stride[0];
  const float *const padding = static_cast<const float *>(p.padding);
  int64_t lines = 0;
  for (int64_t i = 0; i < d.taps; ++i)
    for (int64_t j = 0; j < h.taps; ++j) {
      const int64_t z = at.d + d.before - i * d.dilation, y = at.h + h.before - j * h.dilation;
      if (z < 0 || y < 0 || z % d.step != 0 || y % h.step != 0 || z / d.step >= d.out || y / h.step >= h.out) continue;
      const float *row = image + z / d.step * t.stride[2] + y / h.step * t.stride[3];
      for (int64_t x = 0; x < p.list; ++x) {
        const int64_t from = p.first + x;
        list[lines * p.list + x] = from < 0 || from >= w.out ? padding : row + from * t.stride[4];
      }
      taps[lines++] = {static_cast<int32_t>(i * h.taps + j), -1};
    }
  return lines;
}

POLYCONV_NOINLINE void spread_share(const SpreadPlan &p, const LayerRun &r, const ItemShare &share) {
  const float **const list = reinterpret_cast<const float **>(share.scratch);
  DepthwiseLine *const taps = reinterpret_cast<DepthwiseLine *>(share.scratch + p.rows_at);
  const Epilogue &e = r.epilogue;
  const Axis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  for (int64_t item = share.first; item < share.last; ++item) {
    const Row at = {item / h.in / d.in, 0, item / h.in % d.in, item % h.in, 0, 1};
    const DepthwiseRows rows = {taps, list_sources(p, r, at, list, taps)};
    float *const result = static_cast<float *>(e.output) + row_offset(e.result, at);
    for (int64_t pair = 0; pair < p.pairs; pair += p.tile) {
      const int64_t column = 2 * pair, left = w.in - column;
      const DepthwiseTile<float, float> tile = {
          list + pair, p.list, static_cast<const float *>(r.weights), p.row_stride, 0, nullptr, 0, 0};
      const DepthwiseStore<float> to = {
          result + column * e.result.stride[4], 0,        e.result.stride[4], 1, left < 2 * p.tile ? left : 2 * p.tile,
          static_cast<const float *>(e.bias),   &e.rules, r.stream != 0};
      spread_tile_of(p, tile, rows, to);
    }
  }
  if (r.stream) streamed_stores_done();
}

void spread_task(const SpreadPlan &plan, const LayerRun &run, const ItemShare &share) {
  if constexpr (kManyRegisters) spread_share(plan, run, share); // nobody asks the others
}

} // namespace polyconv::cpu::POLYCONV_ISA
